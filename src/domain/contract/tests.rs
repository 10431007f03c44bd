//! The field set as a whole: documents read, refused with reasons, written back, hashed.

use super::*;
use proptest::prelude::*;
use serde_json::json;

fn refusal(change: impl Fn(&mut toml::Table)) -> String {
    let mut table: toml::Table = include_str!("../../../contracts/standard.toml").parse().unwrap();
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
fn the_built_in_standard_says_what_the_specification_says() {
    let standard = fixtures::standard();
    assert_eq!(standard.name, "standard");
    assert_eq!(standard.timeout, Duration::from_secs(15));
    assert_eq!(standard.retry.waits.len(), 9);
    assert_eq!(standard.retry.longest_wait(), Duration::from_hours(24));
    assert_eq!(standard.retry.jitter, Jitter::Percent(20));
    assert_eq!(standard.retry.give_up_after, Some(Duration::from_hours(7 * 24)));
    assert_eq!(standard.pacing, Pacing::Adaptive);
    assert_eq!(standard.https_only, None);
    assert_eq!(standard.retention.dead_letters, Keep::For(Duration::from_hours(30 * 24)));
}

#[test]
fn the_contracts_differ_where_their_articles_do() {
    assert_eq!(fixtures::simpaisa().https_only, Some(true));
    assert_eq!(fixtures::simpaisa().rendering, RenderingRule { tries: 3, timeout: Duration::from_secs(5) });
    assert_eq!(fixtures::simpaisa().off.waiting, WaitingWhenOff::Cancelled);
    assert_eq!(fixtures::bastionary().off.published, PublishedWhileOff::None);
    assert_eq!(fixtures::orientedos().retention.dead_letters, Keep::Forever);
    assert!(fixtures::sendnomi().retry.give_up_while_held);
    assert!(fixtures::all().iter().skip(1).all(|contract| contract.pacing == Pacing::Strict));
    assert!(fixtures::all().iter().skip(1).all(|contract| contract.secret.rotation == Rotation::Switch));
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
    let list = |statuses: &[Statuses]| statuses.to_vec();
    let answers = Answers {
        success: list(&[Statuses::Hundred(2), Statuses::Exactly(409)]),
        never: list(&[Statuses::Hundred(4), Statuses::Exactly(204)]),
        switch_off: list(&[Statuses::Hundred(5)]),
    };
    assert_eq!(
        [200, 204, 404, 409, 500].map(|status| answers.meaning(status)),
        [Answer::Success, Answer::Never, Answer::Never, Answer::Success, Answer::SwitchOff,]
    );
    assert_eq!([100, 302, 600, 999].map(|status| answers.meaning(status)), [Answer::Retry; 4]);
}

proptest! {
    #[test]
    fn no_document_makes_reading_panic(section in "[a-z_]{0,10}", name in "[a-z_.]{0,12}", text in ".{0,20}") {
        let overrides = json!({ section: { name.clone(): text.clone() }, name: text });
        let _ = fixtures::standard().with_overrides(&overrides, Setter::Operator);
    }
}
