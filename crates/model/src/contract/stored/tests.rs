//! Stored contracts against golden documents: what was stored is read in every version, and has the same hash.

use super::*;
use crate::contract::{
    BodyForm, BodySource, CONTRACT_FIELDS, DeadLetterNotice, JsonForm, KeyForm, NoticeChannel, Pacing,
    PublishedWhileDisabled, RetryAfter, Rotation, SignatureEncoding, TimeForm, WaitingWhenDisabled, fixtures,
};
use std::collections::BTreeSet;

/// Stored documents, one in a line. The first has every field set.
const GOLDEN: &str = include_str!("../golden.json");

fn first() -> &'static str {
    GOLDEN.lines().next().unwrap()
}

fn documents() -> Vec<Value> {
    GOLDEN.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A contract in which all that may be left out is left out, or is what it would be then.
const PLAIN: &str = r#"name = "a"
    description = "A"
    timeout = "15s"
    brand = "Posthaste"
    [body]
    fields = [{ name = "data", from = "data" }]
    [signature]
    header = "x-signature"
    signs = "{body}"
    hmac_sha256 = "{signature}"
    encoding = "hex"
    [secret]
    key = "text"
    bytes = 40
    [retry]
    waits = []
    retry_after = "ignore""#;

#[test]
fn stored_contracts_are_read_and_written_back_byte_for_byte() {
    for line in GOLDEN.lines() {
        assert_eq!(Contract::from_json(line).unwrap().to_json(), line);
    }
}

#[test]
fn the_first_golden_contract_has_every_field_set() {
    let document: Value = serde_json::from_str(first()).unwrap();
    for field in CONTRACT_FIELDS.iter().filter(|field| field.path != "based_on") {
        let path = field.path.replace(".*", "").replace('.', "/");
        let value = document.pointer(&format!("/{path}"));
        assert!(value.is_some_and(|value| !value.is_null()), "{path} is not set");
    }
    // Its body alone has a default, as a flat one could not be sorted. Everything else is hashed.
    let contract = Contract::from_json(first()).unwrap();
    assert_eq!(contract.hashed(), first().replace(r#""form":"envelope","#, ""));
}

#[test]
fn golden_contracts_have_every_word() {
    let words = |path: &str| -> BTreeSet<String> {
        let values = documents().into_iter().flat_map(|document| match path.strip_suffix("/*") {
            Some(list) => document.pointer(list).and_then(Value::as_array).cloned().unwrap(),
            None => vec![document.pointer(path).cloned().unwrap()],
        });
        values.map(|value| value.get("from").unwrap_or(&value).as_str().unwrap().to_owned()).collect()
    };
    for (path, names) in [
        ("/pacing", Pacing::NAMES),
        ("/body/form", BodyForm::NAMES),
        ("/body/json", JsonForm::NAMES),
        ("/body/time", TimeForm::NAMES),
        ("/body/fields/*", BodySource::NAMES),
        ("/signature/encoding", SignatureEncoding::NAMES),
        ("/secret/key", KeyForm::NAMES),
        ("/secret/rotation", Rotation::NAMES),
        ("/retry/jitter", &["20%", "full", "none"]),
        ("/retry/retry_after", RetryAfter::NAMES),
        ("/answers/success/*", &["200", "2xx", "409"]),
        ("/off/waiting", WaitingWhenDisabled::NAMES),
        ("/off/published", PublishedWhileDisabled::NAMES),
        ("/notices/dead_letter", DeadLetterNotice::NAMES),
        ("/notices/degraded", NoticeChannel::NAMES),
    ] {
        assert_eq!(words(path), names.iter().map(|name| (*name).to_owned()).collect(), "{path}");
    }
}

#[test]
fn a_stored_contract_with_an_unknown_field_is_refused() {
    for path in
        ["", "/body", "/body/fields/0", "/signature", "/secret", "/retry", "/answers", "/off", "/health"]
            .into_iter()
            .chain(["/notices", "/retention", "/states", "/ids", "/rendering"])
    {
        let mut document: Value = serde_json::from_str(first()).unwrap();
        let section = document.pointer_mut(path).and_then(Value::as_object_mut).unwrap();
        section.insert("unknown_field".to_owned(), "1s".into());
        assert!(
            Contract::from_json(&document.to_string()).is_err(),
            "an unknown field in \"{path}\" is ignored"
        );
    }
}

#[test]
fn only_required_fields_and_those_that_differ_from_their_defaults_are_hashed() {
    let hashed = concat!(
        r#"{"format":1,"name":"a","description":"A","timeout":"15s","body":{"fields":[{"name":"data","from":"data"}]},"#,
        r#""signature":{"header":"x-signature","signs":"{body}","hmac_sha256":"{signature}","encoding":"hex"},"#,
        r#""secret":{"key":"text","bytes":40},"retry":{"waits":[]}}"#,
    );
    assert_eq!(Contract::from_toml("a.toml", PLAIN).unwrap().hashed(), hashed);
}

/// A hash that changes makes every contract a new one. A new field changes the golden document and its hash, and the hash of
/// no contract that does without it.
#[test]
fn the_hash_of_a_contract_is_the_same_in_every_version() {
    let plain = Contract::from_toml("a.toml", PLAIN).unwrap();
    assert_eq!(plain.hash().to_string(), "c9455bb1118480dc5e42be96d1b7b675");
    let golden = Contract::from_json(first()).unwrap();
    assert_eq!(golden.hash().to_string(), "aee8929ae918816a65c64e8f0cb76a4d");
}

#[test]
fn a_stored_contract_of_another_format_is_refused() {
    let stored = fixtures::standard().to_json();
    let refusal = |text: &str| Contract::from_json(text).unwrap_err().to_string();
    let newer = stored.replace(r#""format":1"#, r#""format":2"#);
    assert_eq!(refusal(&newer), "stored contract: its format is not 1, the one that this version reads");
    let older = stored.replace(r#""format":1,"#, "");
    assert_eq!(refusal(&older), "stored contract: it has no format number");
}
