//! Overrides: fields of a contract that are replaced for one endpoint, as far as the setter may.

use super::{
    Contract, codec,
    fields::{self, OverrideLevel},
    header_names::BRAND,
};
use crate::{field_error::FieldError, time::parse_duration};
use serde_json::{Map, Value};
use std::time::Duration;

/// Shorter timeouts make an endpoint fail by accident; only the operator may set them.
const APP_TIMEOUT_MIN: Duration = Duration::from_secs(1);

impl Contract {
    /// Returns this contract with the fields of `overrides` replaced. Lists are replaced whole; null removes an
    /// optional field or a header.
    ///
    /// Rejects unknown fields, fields that the setter may not set, and values out of bounds. Stored overrides were
    /// checked when they were set: resolve them as `OverrideLevel::Operator`.
    pub fn with_overrides(&self, overrides: &Value, setter: OverrideLevel) -> Result<Self, FieldError> {
        Self::check_overrides(overrides, setter)?;
        let mut document = codec::write(self);
        merge_overrides(&mut document, overrides);
        codec::read(&document)
    }

    /// Checks that the setter may set these fields to these values, independent of the contract.
    pub fn check_overrides(overrides: &Value, setter: OverrideLevel) -> Result<(), FieldError> {
        fields::for_each_field(overrides, |field, least| match least {
            Some(least) if setter >= least => Ok(()),
            Some(least) => Err(FieldError::new(field, format!("can only be set by {}", least.name()))),
            None => Err(FieldError::new(field, "cannot be overridden; choose another contract")),
        })?;
        let timeout = overrides.get("timeout").and_then(Value::as_str).and_then(parse_duration);
        if setter < OverrideLevel::Operator && timeout.is_some_and(|timeout| timeout < APP_TIMEOUT_MIN) {
            return Err(FieldError::new("timeout", "must be from 1s to 1m"));
        }
        Ok(())
    }
}

/// Replaces members of the document by those of `overrides`, recursively.
pub(super) fn merge_overrides(document: &mut Value, overrides: &Value) {
    let brand = [overrides, document].into_iter().find_map(|one| one.get("brand")?.as_str());
    let brand = brand.unwrap_or_default().to_owned();
    match (document, overrides) {
        (Value::Object(members), Value::Object(overrides)) => {
            for (name, value) in overrides {
                match (name.as_str(), members.get_mut(name), value) {
                    ("headers", Some(Value::Object(headers)), Value::Object(changes)) => {
                        merge_headers(headers, changes, &brand);
                    }
                    (_, Some(member), value) => merge_overrides(member, value),
                    (_, None, value) => drop(members.insert(name.clone(), value.clone())),
                }
            }
        }
        (document, value) => *document = value.clone(),
    }
}

/// Replaces and removes headers. Names match in any case; for removal the name on the wire matches too.
fn merge_headers(headers: &mut Map<String, Value>, changes: &Map<String, Value>, brand: &str) {
    for (name, value) in changes {
        let is_on_the_wire = |known: &str| known.replace(BRAND, brand).eq_ignore_ascii_case(name);
        headers.retain(|known, _| {
            !(known.eq_ignore_ascii_case(name) || value.is_null() && is_on_the_wire(known))
        });
        if !value.is_null() {
            headers.insert(name.clone(), value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::fixtures;
    use serde_json::json;

    fn refusal(overrides: &Value, setter: OverrideLevel) -> String {
        fixtures::standard().with_overrides(overrides, setter).unwrap_err().to_string()
    }

    #[test]
    fn the_documented_overrides_work_for_the_operator() {
        let overrides = json!({
            "retry": { "waits": ["100ms", "1m"], "jitter": "none" }, "timeout": "5s", "https_only": false,
        });
        let standard = fixtures::standard();
        let contract = standard.with_overrides(&overrides, OverrideLevel::Operator).unwrap();
        assert_eq!(contract.retry.waits, [Duration::from_millis(100), Duration::from_mins(1)]);
        assert_eq!(contract.timeout, Duration::from_secs(5));
        assert_eq!(contract.https_only, Some(false));
        assert_eq!(contract.retry.give_up_after, standard.retry.give_up_after, "untouched fields stay");
        assert_ne!(contract.hash(), standard.hash());
        assert_eq!(
            standard.with_overrides(&json!({}), OverrideLevel::Portal).unwrap().hash(),
            standard.hash()
        );
    }

    #[test]
    fn each_level_overrides_only_its_own_fields() {
        assert_eq!(
            refusal(&json!({ "https_only": false }), OverrideLevel::App),
            "https_only: can only be set by the operator"
        );
        assert_eq!(
            refusal(&json!({ "retry": { "waits": [] } }), OverrideLevel::Portal),
            "retry.waits: can only be set by an app key"
        );
        assert_eq!(
            refusal(&json!({ "headers": { "x-a": "1" } }), OverrideLevel::App),
            "headers.x-a: can only be set by the operator"
        );
        assert_eq!(
            refusal(&json!({ "name": "mine" }), OverrideLevel::Operator),
            "name: cannot be overridden; choose another contract"
        );
        assert!(
            fixtures::standard().with_overrides(&json!({ "timeout": "2s" }), OverrideLevel::Portal).is_ok()
        );
    }

    #[test]
    fn bounds_hold_and_are_wider_for_the_operator() {
        assert_eq!(
            refusal(&json!({ "timeout": "999ms" }), OverrideLevel::App),
            "timeout: must be from 1s to 1m"
        );
        assert!(
            fixtures::standard()
                .with_overrides(&json!({ "timeout": "10ms" }), OverrideLevel::Operator)
                .is_ok()
        );
        assert_eq!(
            refusal(&json!({ "timeout": "61s" }), OverrideLevel::Operator),
            "timeout: must be from 10ms to 1m"
        );
        let waits = |count, wait| json!({ "retry": { "waits": vec![wait; count] } });
        assert!(fixtures::standard().with_overrides(&waits(32, "30d"), OverrideLevel::App).is_ok());
        assert!(
            refusal(&waits(33, "1s"), OverrideLevel::App)
                .starts_with("retry.waits: must be a list of at most 32")
        );
        assert_eq!(refusal(&waits(2, "31d"), OverrideLevel::App), "retry.waits[0]: must be from 10ms to 30d");
        assert!(
            refusal(&waits(1, "9ms"), OverrideLevel::App)
                .starts_with("retry.waits[0]: must be a whole number")
        );
    }

    #[test]
    fn an_unknown_field_is_answered_with_the_nearest_name() {
        assert_eq!(
            refusal(&json!({ "retry": { "wait": ["1s"] } }), OverrideLevel::App),
            "retry.wait: there is no such field; did you mean `waits`?"
        );
        assert_eq!(
            refusal(&json!({ "time_out": "1s" }), OverrideLevel::App),
            "time_out: there is no such field; did you mean `timeout`?"
        );
        assert_eq!(
            refusal(&json!({ "retry": "often" }), OverrideLevel::App),
            "retry: must be a table of fields"
        );
        assert_eq!(refusal(&json!([]), OverrideLevel::App), "contract: must be an object");
    }

    #[test]
    fn null_takes_an_optional_field_away_and_is_refused_elsewhere() {
        let overrides = json!({ "retry": { "give_up_after": null } });
        let contract = fixtures::standard().with_overrides(&overrides, OverrideLevel::App).unwrap();
        assert_eq!(contract.retry.give_up_after, None);
        assert!(
            refusal(&json!({ "retry": { "jitter": null } }), OverrideLevel::App)
                .starts_with("retry.jitter: must be")
        );
    }
}
