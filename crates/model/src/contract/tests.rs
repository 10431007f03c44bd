//! Tests of whole contract documents: reading, error messages, writing, hashing.

use super::*;
use proptest::prelude::*;
use serde_json::json;

fn refusal(change: impl Fn(&mut toml::Table)) -> String {
    let mut table: toml::Table = include_str!("../../../../contracts/standard.toml").parse().unwrap();
    change(&mut table);
    Contract::from_toml("mine.toml", &table.to_string()).unwrap_err().to_string()
}

fn set(table: &mut toml::Table, section: &str, name: &str, value: impl Into<toml::Value>) {
    table[section].as_table_mut().unwrap().insert(name.into(), value.into());
}

#[test]
fn every_contract_survives_being_stored() {
    for contract in fixtures::all() {
        let json = contract.to_json();
        let back = Contract::from_json(&json).unwrap();
        assert_eq!(back, contract);
        assert_eq!((back.to_json(), back.hash()), (json, contract.hash()));
        let through_serde: Contract =
            serde_json::from_value(serde_json::to_value(&contract).unwrap()).unwrap();
        assert_eq!(through_serde, contract);
    }
}

#[test]
fn different_contracts_have_different_hashes() {
    let mut hashes: Vec<_> = fixtures::all().iter().map(|contract| contract.hash().to_string()).collect();
    hashes.sort();
    hashes.dedup();
    assert_eq!(hashes.len(), 6);
    assert!(hashes.iter().all(|hash| hash.len() == 32));
}

#[test]
fn a_refusal_names_file_field_and_what_is_allowed() {
    let cases: [(&str, &str, toml::Value, &str); 12] = [
        (
            "retry",
            "jitter",
            "often".into(),
            r#"mine.toml: retry.jitter: must be "none", "full" or a percentage from "1%" to "100%"; it is "often""#,
        ),
        ("retry", "jitter", "020%".into(), r#"mine.toml: retry.jitter: must be "none""#),
        (
            "retry",
            "wait",
            "5s".into(),
            "mine.toml: retry.wait: there is no such field; did you mean `waits`?",
        ),
        ("retry", "final_wait", "31d".into(), "mine.toml: retry.final_wait: must be from 10ms to 30d"),
        ("answers", "never", vec!["40x"].into(), "mine.toml: answers.never[0]: must be a status like"),
        ("answers", "never", vec!["410"].into(), "mine.toml: answers.switch_off: names what another list"),
        ("answers", "success", toml::Value::Array(vec![]), "mine.toml: answers.success: must name a status"),
        ("headers", "x-a", "{colour}".into(), "mine.toml: headers.x-a: has {colour}; it may name {id}, "),
        (
            "headers",
            "Content-Length",
            "0".into(),
            "mine.toml: headers.Content-Length: is written by the product",
        ),
        ("headers", "WEBHOOK-ID", "{id}".into(), "mine.toml: headers.webhook-id: is given twice"),
        ("signature", "header", "webhook-id".into(), "mine.toml: signature.header: is also one of the other"),
        (
            "off",
            "published",
            "dropped".into(),
            r#"mine.toml: off.published: must be "held" or "cancelled" or "none""#,
        ),
    ];
    for (section, name, value, expected) in cases {
        let message = refusal(|table| set(table, section, name, value.clone()));
        assert!(message.starts_with(expected), "{message}");
    }
    let message = refusal(|table| drop(table.remove("timeout")));
    assert!(message.starts_with("mine.toml: timeout: is missing; it must be a whole number"), "{message}");
    let message = refusal(|table| drop(table.insert("retries".into(), 3.into())));
    assert_eq!(message, "mine.toml: retries: there is no such field; did you mean `retry`?");
    let message = refusal(|table| drop(table["signature"].as_table_mut().unwrap().remove("ed25519")));
    assert!(message.starts_with("mine.toml: signature.ed25519: and `secret.ed25519_prefix`"), "{message}");
    let broken = Contract::from_toml("mine.toml", "name = ").unwrap_err().to_string();
    assert!(broken.starts_with("mine.toml: TOML parse error at line 1"), "{broken}");
}

#[test]
fn a_body_that_could_not_be_written_is_refused() {
    let body = |body: serde_json::Value| {
        let mut document = serde_json::to_value(fixtures::standard()).unwrap();
        document["body"] = body;
        document["format"] = 1.into();
        Contract::from_json(&document.to_string()).map_err(|error| error.to_string())
    };
    let (id, data) = (json!({ "name": "id", "from": "event_id" }), json!({ "name": "data", "from": "data" }));
    assert!(body(json!({ "fields": [id, data] })).is_ok());
    assert!(body(json!({ "form": "flat", "fields": [id] })).is_ok());
    for bad in [
        json!({ "fields": [id] }),
        json!({ "fields": [data, data] }),
        json!({ "fields": [id, data, { "name": "id", "from": "type" }] }),
        json!({ "form": "flat", "fields": [id, data] }),
        json!({ "form": "flat", "fields": [] }),
        json!({ "form": "flat", "json": "sorted", "fields": [id] }),
        json!({ "fields": [data, { "name": "a\"b", "from": "type" }] }),
        json!({ "fields": [data, { "name": "a", "from": "types" }] }),
        json!({ "fields": [data, { "name": "a", "from": "type", "as": "b" }] }),
    ] {
        let message = body(bad.clone()).unwrap_err();
        assert!(message.starts_with("stored contract: body."), "{bad}: {message}");
    }
}

#[test]
fn a_status_named_exactly_beats_its_hundred() {
    let list = |statuses: &[StatusPattern]| statuses.to_vec();
    let answers = ResponseRules {
        success: list(&[StatusPattern::Class(2), StatusPattern::Exactly(409)]),
        never: list(&[StatusPattern::Class(4), StatusPattern::Exactly(204)]),
        disable: list(&[StatusPattern::Class(5)]),
        advise_rotation: list(&[]),
    };
    assert_eq!(
        [200, 204, 404, 409, 500].map(|status| answers.meaning(status)),
        [
            ResponseMeaning::Success,
            ResponseMeaning::Never,
            ResponseMeaning::Never,
            ResponseMeaning::Success,
            ResponseMeaning::DisableEndpoint,
        ]
    );
    assert_eq!([100, 302, 600, 999].map(|status| answers.meaning(status)), [ResponseMeaning::Retry; 4]);
}

#[test]
fn every_field_of_the_table_of_fields_is_in_the_written_document_and_nothing_else() {
    let written = serde_json::to_value(fixtures::zerofee()).unwrap();
    let mut paths = Vec::new();
    fields::for_each_field(&written, |path, _| {
        paths.push(if path.starts_with("headers.") { "headers.*".to_owned() } else { path.to_owned() });
        Ok(())
    })
    .unwrap();
    let mut known: Vec<_> =
        CONTRACT_FIELDS.iter().map(|rule| rule.path.to_owned()).filter(|path| path != "based_on").collect();
    paths.sort();
    paths.dedup();
    known.sort();
    assert_eq!(paths, known);
}

/// Returns the error of these overrides, set by the operator on `standard`.
fn refused(overrides: &Value) -> String {
    fixtures::standard().with_overrides(overrides, OverrideLevel::Operator).unwrap_err().to_string()
}

#[test]
fn health_rules_that_contradict_each_other_are_refused() {
    let health = |health: Value| refused(&json!({ "health": health }));
    assert_eq!(
        health(json!({ "warning_after": "5d" })),
        "health.warning_after: must be before `health.off_after_failing_for`, which is 5d"
    );
    assert_eq!(
        health(json!({ "off_after_failing_for": null })),
        "health.warning_after: needs `health.off_after_failing_for`: there is nothing to warn of"
    );
    for half in [json!({ "degraded_above": "80%" }), json!({ "degraded_window": "24h" })] {
        assert_eq!(
            health(half),
            "health.degraded_above: and `health.degraded_window` must be given both or neither"
        );
    }
    for share in ["0%", "100%", "080%", "80", "%"] {
        assert!(
            health(json!({ "degraded_above": share }))
                .starts_with("health.degraded_above: must be a percentage from \"1%\" to \"99%\""),
            "{share}"
        );
    }
    for events in [0, 10_001] {
        assert_eq!(
            health(json!({ "off_after_failed_events": events })),
            "health.off_after_failed_events: must be from 1 to 10000"
        );
    }
    assert_eq!(
        health(json!({ "off_reason": "Too bad" })),
        "health.off_reason: must be 1 to 64 characters out of a-z 0-9 _"
    );
    assert!(health(json!({ "warning_after": "366d" })).ends_with("must be from 10ms to 365d"));
    let off = json!({ "health": { "off_after_failing_for": null, "warning_after": null } });
    assert!(fixtures::standard().with_overrides(&off, OverrideLevel::App).is_ok());
    let named = json!({ "health": { "off_reason": "mine" } });
    assert!(fixtures::standard().with_overrides(&named, OverrideLevel::App).is_err(), "the operator's");
}

#[test]
fn notices_without_a_channel_are_rejected() {
    assert_eq!(
        refused(&json!({ "notices": { "off_warning": "none" } })),
        "notices.off_warning: must be \"email\" or \"list\" where there is `health.warning_after`"
    );
    assert!(
        refused(&json!({ "notices": { "dead_letter_by": "none" } }))
            .starts_with("notices.dead_letter_by: must be \"email\" or \"list\"")
    );
    assert!(
        refused(&json!({ "notices": { "dead_letter": "often" } }))
            .starts_with("notices.dead_letter: must be \"each\" or \"digest\" or \"none\"")
    );
    let unwarned = json!({ "notices": { "off_warning": "none" } });
    assert!(fixtures::zerofee().with_overrides(&unwarned, OverrideLevel::App).is_ok(), "it warns of nothing");
}

#[test]
fn states_have_our_names_unless_given_and_failures_before_sending_are_called_dead() {
    use crate::delivery::{DeliveryState, EndReason};
    let overrides = json!({ "states": { "dead": "GONE", "held": "on hold" } });
    assert_eq!(refused(&overrides), "states.held: must be 1 to 64 characters out of A-Z a-z 0-9 _ -");
    let renamed = fixtures::standard()
        .with_overrides(&json!({ "states": { "dead": "GONE" } }), OverrideLevel::Operator)
        .unwrap();
    assert_eq!(renamed.states.of(DeliveryState::Dead, Some(EndReason::Exhausted)), "GONE");
    assert_eq!(renamed.states.of(DeliveryState::Dead, Some(EndReason::SigningFailed)), "GONE");
    assert_eq!(renamed.states.of(DeliveryState::Held, None), "held");
    let unsigned = json!({ "states": { "signing_failed": "UNSIGNED", "dead": null } });
    let unsigned = renamed.with_overrides(&unsigned, OverrideLevel::Operator).unwrap();
    assert_eq!(unsigned.states.of(DeliveryState::Dead, Some(EndReason::SigningFailed)), "UNSIGNED");
    assert_eq!(
        unsigned.states.of(DeliveryState::Dead, Some(EndReason::SerialisationFailed)),
        "dead",
        "null: our own"
    );
    assert!(
        fixtures::standard()
            .with_overrides(&json!({ "states": { "dead": "x" } }), OverrideLevel::App)
            .is_err()
    );
}

#[test]
fn advice_event_types_and_ids_have_bounds() {
    assert_eq!(
        refused(&json!({ "answers": { "advise_rotation": ["2xx"] } })),
        "answers.advise_rotation: names what `answers.success` names"
    );
    assert!(refused(&json!({ "event_types": ["a b"] })).starts_with("event_types[0]: must be "));
    assert!(refused(&json!({ "event_types": ["webhook.x"] })).contains("which is reserved"));
    assert!(refused(&json!({ "event_types": vec!["a"; 201] })).contains("at most 200"));
    for prefix in ["1a", "", "A", "a_b", "abcdefghijklmnopq"] {
        assert!(
            refused(&json!({ "ids": { "event": prefix } })).starts_with("ids.event: must be 1 to "),
            "{prefix}"
        );
    }
}

proptest! {
    #[test]
    fn no_document_makes_reading_panic(section in "[a-z_]{0,10}", name in "[a-z_.]{0,12}", text in ".{0,20}") {
        let overrides = json!({ section: { name.clone(): text.clone() }, name: text });
        let _ = fixtures::standard().with_overrides(&overrides, OverrideLevel::Operator);
    }
}
