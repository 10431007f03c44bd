//! Fields of a contract document, and the least powerful level that may override each.

use crate::field_error::FieldError;
use serde_json::Value;

/// Level at which a field of a contract is overridden, from the least to the most powerful.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OverrideLevel {
    /// The receiver's people, through a portal link.
    Portal,
    App,
    Operator,
}

impl OverrideLevel {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portal => "the portal",
            Self::App => "an app key",
            Self::Operator => "the operator",
        }
    }
}

/// A field of the document.
#[derive(Clone, Copy, Debug)]
pub struct FieldRule {
    /// Dotted path. `headers.*` stands for any header name.
    pub path: &'static str,
    /// Least powerful level that may override it; `None`: cannot be overridden, choose another contract.
    pub least_level: Option<OverrideLevel>,
    /// Allowed values, for the documentation; errors have texts of their own.
    pub allowed: &'static str,
}

const fn field(path: &'static str, setter: Option<OverrideLevel>, allowed: &'static str) -> FieldRule {
    FieldRule { path, least_level: setter, allowed }
}

const STATE_NAME: &str = "1 to 64 characters out of A-Z a-z 0-9 _ -";

/// All fields of a contract document.
pub const CONTRACT_FIELDS: &[FieldRule] = &[
    field("name", None, "1 to 64 characters out of a-z 0-9 _ -"),
    field("based_on", None, "the name of another contract, in a file only"),
    field("description", None, "1 to 500 characters"),
    field(
        "brand",
        Some(OverrideLevel::Operator),
        "printable ASCII; letters, digits, - and _ where a header's name has {brand}",
    ),
    field(
        "event_types",
        Some(OverrideLevel::Operator),
        "a list of at most 200 event types, for people to read",
    ),
    field("user_agent", Some(OverrideLevel::Operator), "a template of {brand}, {version}"),
    field("timeout", Some(OverrideLevel::Portal), "1s to 1m; the operator: from 10ms"),
    field("pacing", Some(OverrideLevel::App), r#""strict", "adaptive""#),
    field("https_only", Some(OverrideLevel::Operator), "true, false; absent: as the setting says"),
    field("body.form", Some(OverrideLevel::Operator), r#""envelope", "flat""#),
    field("body.json", Some(OverrideLevel::Operator), r#""as_given", "sorted"; "as_given" in a flat body"#),
    field("body.time", Some(OverrideLevel::Operator), r#""milliseconds", "seconds""#),
    field(
        "body.fields",
        Some(OverrideLevel::Operator),
        r#"at most 32 of { name, from }, one of them from "data" unless the body is flat"#,
    ),
    field("signature.header", Some(OverrideLevel::Operator), "a header's name, which may hold {brand}"),
    field("signature.signs", Some(OverrideLevel::Operator), "a template with {body}"),
    field("signature.hmac_sha256", Some(OverrideLevel::Operator), "a template with {signature}"),
    field(
        "signature.ed25519",
        Some(OverrideLevel::Operator),
        "a template with {signature}; together with secret.ed25519_prefix",
    ),
    field("signature.encoding", Some(OverrideLevel::Operator), r#""base64", "hex""#),
    field("signature.separator", Some(OverrideLevel::Operator), "printable ASCII"),
    field("secret.key", Some(OverrideLevel::Operator), r#""base64", "text""#),
    field("secret.prefix", Some(OverrideLevel::Operator), "1 to 500 characters"),
    field("secret.bytes", Some(OverrideLevel::Operator), "24 to 64"),
    field("secret.rotation", Some(OverrideLevel::Operator), r#""both", "switch""#),
    field("secret.ed25519_prefix", Some(OverrideLevel::Operator), "1 to 500 characters, not secret.prefix"),
    field(
        "headers.*",
        Some(OverrideLevel::Operator),
        "a template; the name may hold {brand}; null takes the header away",
    ),
    field("retry.waits", Some(OverrideLevel::App), "at most 32, each 10ms to 30d"),
    field("retry.jitter", Some(OverrideLevel::App), r#""none", "full", "1%" to "100%""#),
    field("retry.final_wait", Some(OverrideLevel::App), "10ms to 30d"),
    field("retry.give_up_after", Some(OverrideLevel::App), "10ms to 365d"),
    field("retry.give_up_while_held", Some(OverrideLevel::App), "true, false"),
    field("retry.retry_after", Some(OverrideLevel::App), r#""honour", "ignore""#),
    field("answers.success", Some(OverrideLevel::App), r#"1 to 32 of "410" or "4xx""#),
    field(
        "answers.never",
        Some(OverrideLevel::App),
        r#"at most 32 of "410" or "4xx", none of them in another list"#,
    ),
    field(
        "answers.switch_off",
        Some(OverrideLevel::App),
        r#"at most 32 of "410" or "4xx", none of them in another list"#,
    ),
    field(
        "answers.advise_rotation",
        Some(OverrideLevel::App),
        r#"at most 32 of "410" or "4xx", none of them in `answers.success`"#,
    ),
    field("off.waiting", Some(OverrideLevel::App), r#""held", "cancelled""#),
    field("off.published", Some(OverrideLevel::App), r#""held", "cancelled", "none""#),
    field("health.off_after_failed_events", Some(OverrideLevel::App), "1 to 10000"),
    field("health.off_after_failing_for", Some(OverrideLevel::App), "10ms to 365d"),
    field(
        "health.warning_after",
        Some(OverrideLevel::App),
        "10ms to 365d, before health.off_after_failing_for",
    ),
    field("health.off_reason", Some(OverrideLevel::Operator), "1 to 64 characters out of a-z 0-9 _"),
    field(
        "health.degraded_above",
        Some(OverrideLevel::App),
        r#""1%" to "99%", together with health.degraded_window"#,
    ),
    field(
        "health.degraded_window",
        Some(OverrideLevel::App),
        "10ms to 30d, together with health.degraded_above",
    ),
    field("notices.dead_letter", Some(OverrideLevel::App), r#""each", "digest", "none""#),
    field("notices.dead_letter_by", Some(OverrideLevel::App), r#""email", "list""#),
    field("notices.digest_window", Some(OverrideLevel::App), "10ms to 1d"),
    field("notices.degraded", Some(OverrideLevel::App), r#""email", "list", "none""#),
    field(
        "notices.off_warning",
        Some(OverrideLevel::App),
        r#""email", "list", "none"; not "none" with health.warning_after"#,
    ),
    field("notices.switched_off", Some(OverrideLevel::App), r#""email", "list", "none""#),
    field("notices.replay_finished", Some(OverrideLevel::App), r#""email", "list", "none""#),
    field("retention.events", Some(OverrideLevel::Operator), r#""forever", 1m to 3650d"#),
    field("retention.attempts", Some(OverrideLevel::Operator), r#""forever", 1m to 3650d"#),
    field("retention.payloads", Some(OverrideLevel::Operator), r#""forever", 1m to 3650d"#),
    field("retention.dead_letters", Some(OverrideLevel::Operator), r#""forever", 1m to 3650d"#),
    field("states.pending", Some(OverrideLevel::Operator), STATE_NAME),
    field("states.in_flight", Some(OverrideLevel::Operator), STATE_NAME),
    field("states.retrying", Some(OverrideLevel::Operator), STATE_NAME),
    field("states.held", Some(OverrideLevel::Operator), STATE_NAME),
    field("states.delivered", Some(OverrideLevel::Operator), STATE_NAME),
    field("states.dead", Some(OverrideLevel::Operator), STATE_NAME),
    field("states.cancelled", Some(OverrideLevel::Operator), STATE_NAME),
    field("states.expired", Some(OverrideLevel::Operator), STATE_NAME),
    field("states.skipped", Some(OverrideLevel::Operator), STATE_NAME),
    field("states.serialisation_failed", Some(OverrideLevel::Operator), STATE_NAME),
    field("states.signing_failed", Some(OverrideLevel::Operator), STATE_NAME),
    field(
        "ids.event",
        Some(OverrideLevel::Operator),
        "1 to 16 characters out of a-z 0-9, the first a letter",
    ),
    field(
        "ids.delivery",
        Some(OverrideLevel::Operator),
        "1 to 16 characters out of a-z 0-9, the first a letter",
    ),
    field("rendering.tries", Some(OverrideLevel::Operator), "1 to 10"),
    field("rendering.timeout", Some(OverrideLevel::Operator), "10ms to 1m"),
];

/// Calls `visit` with every field that the document sets; rejects unknown fields.
pub(super) fn for_each_field(
    document: &Value,
    mut visit: impl FnMut(&str, Option<OverrideLevel>) -> Result<(), FieldError>,
) -> Result<(), FieldError> {
    let members = document.as_object().ok_or_else(|| FieldError::new("contract", "must be an object"))?;
    for (name, value) in members {
        if let Some(rule) = CONTRACT_FIELDS.iter().find(|rule| rule.path == name) {
            visit(name, rule.least_level)?;
            continue;
        }
        let inner: Vec<_> = CONTRACT_FIELDS
            .iter()
            .filter_map(|rule| Some((inside(rule.path, name)?, rule.least_level)))
            .collect();
        if inner.is_empty() {
            let mut known: Vec<_> =
                CONTRACT_FIELDS.iter().map(|rule| rule.path.split('.').next().unwrap_or(rule.path)).collect();
            known.dedup();
            return Err(FieldError::unknown(name, name, known.into_iter()));
        }
        let members = value.as_object().ok_or_else(|| FieldError::new(name, "must be a table of fields"))?;
        for key in members.keys() {
            let path = format!("{name}.{key}");
            match inner.iter().find(|(field, _)| field == key || *field == "*") {
                Some((_, setter)) => visit(&path, *setter)?,
                None => return Err(FieldError::unknown(path, key, inner.iter().map(|(field, _)| *field))),
            }
        }
    }
    Ok(())
}

fn inside<'a>(field: &'a str, section: &str) -> Option<&'a str> {
    field.strip_prefix(section)?.strip_prefix('.')
}
