//! Which fields a contract document has, and who may set each one.

use crate::domain::field::FieldError;
use serde_json::Value;

/// Who overrides a field of a contract, from the least to the most powerful.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Setter {
    /// A receiver's own people, through a portal link.
    Portal,
    App,
    Operator,
}

impl Setter {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Portal => "the portal",
            Self::App => "an app key",
            Self::Operator => "the operator",
        }
    }
}

/// Every field and the least powerful who may override it; `None`: it is not overridden but another contract is
/// chosen. `headers.*` stands for any header name.
const FIELDS: &[(&str, Option<Setter>)] = &[
    ("name", None),
    ("description", None),
    ("brand", Some(Setter::Operator)),
    ("user_agent", Some(Setter::Operator)),
    ("timeout", Some(Setter::Portal)),
    ("pacing", Some(Setter::App)),
    ("https_only", Some(Setter::Operator)),
    ("body.form", Some(Setter::Operator)),
    ("body.json", Some(Setter::Operator)),
    ("body.time", Some(Setter::Operator)),
    ("body.fields", Some(Setter::Operator)),
    ("signature.header", Some(Setter::Operator)),
    ("signature.signs", Some(Setter::Operator)),
    ("signature.hmac_sha256", Some(Setter::Operator)),
    ("signature.ed25519", Some(Setter::Operator)),
    ("signature.encoding", Some(Setter::Operator)),
    ("signature.separator", Some(Setter::Operator)),
    ("secret.key", Some(Setter::Operator)),
    ("secret.prefix", Some(Setter::Operator)),
    ("secret.bytes", Some(Setter::Operator)),
    ("secret.rotation", Some(Setter::Operator)),
    ("secret.ed25519_prefix", Some(Setter::Operator)),
    ("headers.*", Some(Setter::Operator)),
    ("retry.waits", Some(Setter::App)),
    ("retry.jitter", Some(Setter::App)),
    ("retry.final_wait", Some(Setter::App)),
    ("retry.give_up_after", Some(Setter::App)),
    ("retry.give_up_while_held", Some(Setter::App)),
    ("retry.retry_after", Some(Setter::App)),
    ("answers.success", Some(Setter::App)),
    ("answers.never", Some(Setter::App)),
    ("answers.switch_off", Some(Setter::App)),
    ("off.waiting", Some(Setter::App)),
    ("off.published", Some(Setter::App)),
    ("retention.events", Some(Setter::Operator)),
    ("retention.attempts", Some(Setter::Operator)),
    ("retention.payloads", Some(Setter::Operator)),
    ("retention.dead_letters", Some(Setter::Operator)),
    ("ids.event", Some(Setter::Operator)),
    ("ids.delivery", Some(Setter::Operator)),
    ("rendering.tries", Some(Setter::Operator)),
    ("rendering.timeout", Some(Setter::Operator)),
];

/// Calls `visit` with every field that the document sets; refuses a field that does not exist.
pub(super) fn for_each_field(
    document: &Value,
    mut visit: impl FnMut(&str, Option<Setter>) -> Result<(), FieldError>,
) -> Result<(), FieldError> {
    let members = document.as_object().ok_or_else(|| FieldError::new("contract", "must be an object"))?;
    for (name, value) in members {
        if let Some((_, setter)) = FIELDS.iter().find(|(field, _)| field == name) {
            visit(name, *setter)?;
            continue;
        }
        let inner: Vec<_> = FIELDS.iter().filter_map(|(f, s)| Some((inside(f, name)?, *s))).collect();
        if inner.is_empty() {
            let known = FIELDS.iter().map(|(field, _)| field.split('.').next().unwrap_or(field));
            return Err(FieldError::unknown(name, name, known));
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
