//! The error for an invalid field of a given document, with a suggestion for a misspelt name.

use std::fmt::Display;

/// An error that names the field, as a dotted path, and says what is allowed there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct FieldError {
    pub field: String,
    pub message: String,
}

impl FieldError {
    pub fn new(field: impl Into<String>, message: impl Display) -> Self {
        Self { field: field.into(), message: message.to_string() }
    }

    /// Makes the error for an unknown name. Suggests the nearest known one, or lists all when none is near.
    pub fn unknown<'a>(field: impl Into<String>, name: &str, known: impl Iterator<Item = &'a str>) -> Self {
        let known: Vec<&str> = known.collect();
        let message = match nearest(name, &known) {
            Some(near) => format!("there is no such field; did you mean `{near}`?"),
            None => format!("there is no such field; known here: {}", known.join(", ")),
        };
        Self { field: field.into(), message }
    }
}

/// Returns the known name that `name` is most likely a misspelling of.
pub fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    // Two swapped letters count as one slip, and short names have room for only one.
    let slips = |candidate: &str| strsim::osa_distance(name, candidate);
    known
        .iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), *candidate))
        .filter(|(likeness, candidate)| *likeness > 0.75 || slips(candidate) <= candidate.len() / 3)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelling_is_answered_with_the_nearest_name() {
        let known = ["waits", "jitter", "final_wait"];
        assert_eq!(nearest("wait", &known), Some("waits"));
        assert_eq!(nearest("jiter", &known), Some("jitter"));
        assert_eq!(nearest("ulr", &["url", "secret"]), Some("url"));
        assert_eq!(nearest("zzz", &known), None);
        let error = FieldError::unknown("retry.zzz", "zzz", known.into_iter());
        assert_eq!(
            error.to_string(),
            "retry.zzz: there is no such field; known here: waits, jitter, final_wait"
        );
    }
}
