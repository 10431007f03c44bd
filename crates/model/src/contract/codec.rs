//! A contract as a document: how each field is read, bounded and written.
//!
//! `read` and `write` are inverse. The written form, defaults included, is hashed and stored.

mod delivery_rules;
mod notifications;
mod wire_format;

use super::{
    Contract,
    delivery_rules::{Pacing, StatusPattern},
    field_reader::{FieldValue, Section},
    header_names::HeaderNames,
    template::{Template, TemplateUse},
};
use crate::{field_error::FieldError, time::format_duration};
use serde_json::{Map, Value, json};
use std::time::Duration;

const DAY: Duration = Duration::from_hours(24);
const REQUEST_TIMEOUT_MAX: Duration = Duration::from_mins(1);
const DURATION_MIN: Duration = Duration::from_millis(10);

type FieldResult<T> = Result<T, FieldError>;

/// Reads a document whose field names are already known to exist.
pub(super) fn read(document: &Value) -> FieldResult<Contract> {
    let root = Section::root(document)?;
    let empty = Map::new();
    let section = |name| root.section(name, &empty);
    let brand = read_printable(&root, "brand", "Posthaste")?;
    let mut names = HeaderNames::new(&brand);
    let headers = wire_format::read_headers(&section("headers")?, &mut names)?;
    let signature = wire_format::read_signature(&section("signature")?, &mut names)?;
    let health = notifications::read_health(&section("health")?)?;
    let contract = Contract {
        name: read_name(&root)?,
        description: root.required("description")?,
        event_types: notifications::read_event_types(&root)?,
        user_agent: read_template(&root, "user_agent", Some("Posthaste/{version}"), TemplateUse::UserAgent)?,
        timeout: check_range(&root, "timeout", root.required("timeout")?, DURATION_MIN, REQUEST_TIMEOUT_MAX)?,
        pacing: root.or("pacing", Pacing::Strict)?,
        https_only: root.optional("https_only")?,
        body: wire_format::read_body(&section("body")?)?,
        signature,
        secret: wire_format::read_secret(&section("secret")?)?,
        headers,
        retry: delivery_rules::read_retry(&section("retry")?)?,
        answers: delivery_rules::read_answers(&section("answers")?)?,
        off: delivery_rules::read_off(&section("off")?)?,
        notices: notifications::read_notices(&section("notices")?, &health)?,
        health,
        retention: delivery_rules::read_retention(&section("retention")?)?,
        states: notifications::read_states(&section("states")?)?,
        ids: wire_format::read_ids(&section("ids")?)?,
        rendering: delivery_rules::read_rendering(&section("rendering")?)?,
        header_spellings: names.into_spellings(),
        brand,
    };
    if contract.signature.ed25519.is_some() != contract.secret.ed25519_prefix.is_some() {
        let message = "and `secret.ed25519_prefix` must be given both or neither";
        return Err(FieldError::new("signature.ed25519", message));
    }
    Ok(contract)
}

pub(super) fn write(contract: &Contract) -> Value {
    let Contract { body, signature, secret, retry, answers, off, retention, ids, rendering, .. } = contract;
    let list = |statuses: &[StatusPattern]| statuses.iter().map(FieldValue::write).collect::<Vec<_>>();
    let spelling = |name: &String| contract.header_spellings.get(name).unwrap_or(name).clone();
    let headers: Map<_, _> =
        contract.headers.iter().map(|(name, value)| (spelling(name), value.source().into())).collect();
    json!({
        "name": contract.name,
        "description": contract.description,
        "brand": contract.brand,
        "event_types": contract.event_types,
        "user_agent": contract.user_agent.source(),
        "timeout": contract.timeout.write(),
        "pacing": contract.pacing.name(),
        "https_only": contract.https_only,
        "body": {
            "form": body.form.name(),
            "json": body.json.name(),
            "time": body.time.name(),
            "fields": body.fields.iter().map(FieldValue::write).collect::<Vec<_>>(),
        },
        "signature": {
            "header": spelling(&signature.header),
            "signs": signature.signs.source(),
            "hmac_sha256": signature.hmac_sha256.source(),
            "ed25519": signature.ed25519.as_ref().map(Template::source),
            "encoding": signature.encoding.name(),
            "separator": signature.separator,
        },
        "secret": {
            "key": secret.key.name(),
            "prefix": Some(&secret.prefix).filter(|prefix| !prefix.is_empty()),
            "bytes": secret.bytes,
            "rotation": secret.rotation.name(),
            "ed25519_prefix": secret.ed25519_prefix,
        },
        "headers": headers,
        "retry": {
            "waits": retry.waits.iter().map(FieldValue::write).collect::<Vec<_>>(),
            "jitter": retry.jitter.write(),
            "final_wait": retry.final_wait.map(format_duration),
            "give_up_after": retry.give_up_after.map(format_duration),
            "give_up_while_held": retry.give_up_while_held,
            "retry_after": retry.retry_after.name(),
        },
        "answers": {
            "success": list(&answers.success),
            "never": list(&answers.never),
            "switch_off": list(&answers.disable),
            "advise_rotation": list(&answers.advise_rotation),
        },
        "off": { "waiting": off.waiting.name(), "published": off.published.name() },
        "health": notifications::write_health(&contract.health),
        "notices": notifications::write_notices(contract.notices),
        "retention": {
            "events": retention.events.write(),
            "attempts": retention.attempts.write(),
            "payloads": retention.payloads.write(),
            "dead_letters": retention.dead_letters.write(),
        },
        "states": notifications::write_states(&contract.states),
        "ids": { "event": ids.event, "delivery": ids.delivery },
        "rendering": { "tries": rendering.tries, "timeout": rendering.timeout.write() },
    })
}

/// Reads only the name of a document that is not read as a whole yet.
pub(super) fn read_name(root: &Section) -> FieldResult<String> {
    let name: String = root.required("name")?;
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
    if name.len() <= 64 && name.bytes().all(plain) {
        return Ok(name);
    }
    Err(FieldError::new("name", "must be 1 to 64 characters out of a-z 0-9 _ -"))
}

fn read_template(
    section: &Section,
    name: &str,
    default: Option<&str>,
    template_use: TemplateUse,
) -> FieldResult<Template> {
    let source = match default {
        Some(default) => section.or(name, default.to_owned())?,
        None => section.required::<String>(name)?,
    };
    Template::parse(&source, template_use).map_err(|message| FieldError::new(section.at(name), message))
}

/// Reads text that is used in a header: printable ASCII.
fn read_printable(section: &Section, name: &str, default: &str) -> FieldResult<String> {
    let text = section.or(name, default.to_owned())?;
    if text.bytes().all(|b| (0x20..0x7f).contains(&b)) {
        return Ok(text);
    }
    Err(FieldError::new(section.at(name), "must be printable ASCII characters"))
}

fn check_range(
    section: &Section,
    name: &str,
    duration: Duration,
    min: Duration,
    max: Duration,
) -> FieldResult<Duration> {
    if (min..=max).contains(&duration) {
        return Ok(duration);
    }
    let message = format!("must be from {} to {}", format_duration(min), format_duration(max));
    Err(FieldError::new(section.at(name), message))
}
