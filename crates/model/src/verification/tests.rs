//! Verified requests of every contract, and each explanation for those that are not.

use super::{body_variants::*, keys::KeyMistake, *};
use crate::{
    body::EventParts,
    contract::fixtures,
    id::{AttemptId, DeliveryId, EventId},
    request_headers::{RequestParts, render_headers},
    secret::Secret,
    signing_keys::SigningKeys,
};
use serde_json::Value;

const NOW: Timestamp = Timestamp::from_millis(1_794_735_000_123);
const TOLERANCE: Duration = Duration::from_mins(5);
const SECRET: &str = "whsec_AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
const BODY: &str = r#"{"id":"evt_1","type":"payment.created","timestamp":"2026-11-15T09:30:00.000Z","data":{"b": "é/<", "a": [1.0, {}]}}"#;

type Headers = Vec<(String, String)>;

/// Headers as the engine would send them, signed with this secret.
fn signed(contract: &Contract, secret: &str, body: &[u8]) -> Headers {
    let secret = Secret { text: secret.into(), valid_from: Timestamp::from_millis(0), valid_until: None };
    let signing_keys = SigningKeys::prepare(contract, &[secret]).unwrap();
    let event = EventParts {
        public_id: "evt_1",
        own_id: EventId::from_i64(1),
        event_type: "payment.created",
        created_at: NOW,
        data: b"{}",
        app_uid: "a",
        livemode: true,
        payload_version: "1",
    };
    let attempt = AttemptId { delivery: DeliveryId::from_i64(3), position: 1 };
    let request =
        RequestParts { event: &event, root: DeliveryId::from_i64(3), attempt, number: 1, now: NOW, body };
    let made = render_headers(contract, &signing_keys, &request).unwrap();
    made.into_iter().map(|(name, value)| (name.into_owned(), value)).collect()
}

fn verify_and_diagnose(
    contract: &Contract,
    secrets: &[&str],
    headers: &Headers,
    body: &[u8],
) -> Result<Verified, (Mismatch, Vec<Diagnosis>)> {
    let secrets: Vec<String> = secrets.iter().map(|secret| (*secret).to_owned()).collect();
    let terms = VerifyOptions { contract, secrets: &secrets, now: NOW, tolerance: TOLERANCE };
    let received = IncomingRequest { headers, body };
    verify(&terms, &received).map_err(|mismatch| {
        let found = diagnose(&terms, &received, &mismatch, &fixtures::all());
        (mismatch, found)
    })
}

/// Returns the clues of a request that was signed for `sent` and arrived as `came`.
fn diagnose_changed(sent: &str, came: &str) -> Vec<Diagnosis> {
    let headers = signed(&fixtures::standard(), SECRET, sent.as_bytes());
    let (mismatch, clues) =
        verify_and_diagnose(&fixtures::standard(), &[SECRET], &headers, came.as_bytes()).unwrap_err();
    assert_eq!(mismatch, Mismatch::WrongSignature);
    clues
}

fn set(headers: &mut Headers, name: &str, change: impl Fn(&str) -> String) {
    for (_, value) in headers.iter_mut().filter(|(known, _)| known == name) {
        *value = change(value);
    }
}

#[test]
fn a_request_signed_by_the_engine_is_genuine_under_every_contract_and_another_body_is_not() {
    for contract in fixtures::all() {
        let headers = signed(&contract, SECRET, BODY.as_bytes());
        let genuine = verify_and_diagnose(
            &contract,
            &["whsec_AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=", SECRET],
            &headers,
            BODY.as_bytes(),
        );
        let at = (contract.name != "orientedos").then(|| NOW.as_seconds());
        assert_eq!(genuine, Ok(Verified { signed_at: at }), "{}", contract.name);
        let other = BODY.replace("payment", "refund");
        let (mismatch, clues) =
            verify_and_diagnose(&contract, &[SECRET], &headers, other.as_bytes()).unwrap_err();
        assert_eq!(mismatch, Mismatch::WrongSignature, "{}", contract.name);
        assert!(matches!(clues.last(), Some(Diagnosis::SecretOrBody { signatures: 1 })), "{clues:?}");
    }
}

#[test]
fn a_reserialised_body_is_recognised_by_its_original_form() {
    let json = |spacing, escapes, is_sorted| {
        vec![Diagnosis::Body(BodyVariant::Json { spacing, escapes, is_sorted })]
    };
    let value: Value = serde_json::from_str(BODY).unwrap();
    let compact = value.to_string();
    // As Node writes it: an envelope around data that a Python program published.
    assert_eq!(diagnose_changed(BODY, &compact), json(Spacing::SpacedData, Escapes::AsGiven, false));
    let pretty = serde_json::to_string_pretty(&value).unwrap();
    assert_eq!(diagnose_changed(&compact, &pretty), json(Spacing::Compact, Escapes::AsGiven, false));
    assert_eq!(diagnose_changed(&pretty, &compact), json(Spacing::Indented(2), Escapes::AsGiven, false));
    let ascii = compact.replace('é', "\\u00e9");
    assert_eq!(diagnose_changed(&ascii, &compact), json(Spacing::Compact, Escapes::Ascii, false));
    assert_eq!(diagnose_changed(&compact, &ascii), json(Spacing::Compact, Escapes::Minimal, false));
    let php = ascii.replace('/', "\\/");
    assert_eq!(diagnose_changed(&php, &compact), json(Spacing::Compact, Escapes::AsciiAndSlashes, false));
    assert_eq!(
        diagnose_changed(&compact.replace('<', "\\u003c"), &compact),
        json(Spacing::Compact, Escapes::Html, false)
    );
    let sorted = r#"{"data":{"a":[1.0,{}],"b":"é/<"},"id":"evt_1","type":"t"}"#;
    let unsorted = r#"{"id": "evt_1", "type": "t", "data": {"b": "é/<", "a": [1.0, {}]}}"#;
    assert_eq!(diagnose_changed(sorted, unsorted), json(Spacing::Compact, Escapes::Minimal, true));
    let tabs = "{\n\t\"a\": [\n\t\t1,\n\t\t2\n\t],\n\t\"b\": {}\n}";
    assert_eq!(diagnose_changed(tabs, r#"{"a":[1,2],"b":{}}"#), json(Spacing::Tabs, Escapes::AsGiven, false));
}

#[test]
fn added_and_removed_line_breaks_and_byte_order_marks_are_named() {
    let two_lines = "{\n}";
    for (sent, came, spelling) in [
        (BODY.to_owned(), format!("{BODY}\n"), BodyVariant::WithoutNewline),
        (BODY.to_owned(), format!("{BODY}\r\n"), BodyVariant::WithoutNewline),
        (format!("{BODY}\n"), BODY.to_owned(), BodyVariant::WithNewline),
        (BODY.to_owned(), format!("\u{feff}{BODY}"), BodyVariant::WithoutBom),
        (format!("\u{feff}{BODY}"), BODY.to_owned(), BodyVariant::WithBom),
        (two_lines.replace('\n', "\r\n"), two_lines.to_owned(), BodyVariant::CarriageReturns),
        (two_lines.to_owned(), two_lines.replace('\n', "\r\n"), BodyVariant::LineFeeds),
    ] {
        assert_eq!(diagnose_changed(&sent, &came), [Diagnosis::Body(spelling)], "{came:?}");
    }
}

#[test]
fn a_body_that_cannot_be_the_original_is_reported() {
    let number = BODY.replace("1.0", "1.00");
    let value: Value = serde_json::from_str(&number).unwrap();
    let spaced = value.to_string().replace("\"id\":", "\"id\": ");
    let clues = diagnose_changed(&number, &spaced);
    assert!(matches!(clues[..], [Diagnosis::Rewritten(_), Diagnosis::SecretOrBody { .. }]), "{clues:?}");
    let reordered = r#"{"type":"t","id":"evt_1","timestamp":"t","data":7}"#;
    assert!(
        matches!(diagnose_changed(BODY, reordered)[..], [Diagnosis::Rewritten(why), _] if why.contains("order"))
    );
    assert!(matches!(diagnose_changed(BODY, "")[..], [Diagnosis::EmptyBody, _]));
    assert!(matches!(diagnose_changed(BODY, "hello")[..], [Diagnosis::Rewritten(_), _]));
}

#[test]
fn a_stale_clock_is_reported_with_direction_and_amount() {
    let contract = fixtures::standard();
    let headers = signed(&contract, SECRET, b"{}");
    let secrets = [SECRET.to_owned()];
    let at = |ms: i64| {
        let now = Timestamp::from_millis(NOW.as_millis() + ms);
        let terms = VerifyOptions { contract: &contract, secrets: &secrets, now, tolerance: TOLERANCE };
        verify(&terms, &IncomingRequest { headers: &headers, body: b"{}" })
    };
    assert!(at(300_000).is_ok() && at(-300_000).is_ok());
    let old = at(301_000).unwrap_err();
    assert_eq!(old, Mismatch::TooOld { by: Duration::from_secs(301), tolerance: TOLERANCE });
    assert!(old.to_string().starts_with("the signature is right, but it was made 5 min 1 s ago"), "{old}");
    let new = at(-7_300_000).unwrap_err();
    assert!(new.to_string().contains("2 h 1 min in the future"), "{new}");
    let (mismatch, clues) = verify_and_diagnose(&contract, &[SECRET], &headers, b"{} ").unwrap_err();
    assert_eq!((mismatch, clues.len()), (Mismatch::WrongSignature, 1), "not stale: wrong");
}

#[test]
fn a_wrongly_used_secret_is_recognised() {
    let (standard, sendnomi) = (fixtures::standard(), fixtures::sendnomi());
    // Signing with the text of a secret that should be decoded is what another contract does.
    let headers = signed(&sendnomi, SECRET, b"{}");
    let (_, clues) = verify_and_diagnose(&standard, &[SECRET], &headers, b"{}").unwrap_err();
    assert_eq!(clues, [Diagnosis::Key(KeyMistake::WholeText), Diagnosis::OtherContract("sendnomi".into())]);
    let headers = signed(&standard, SECRET, b"{}");
    let (_, clues) = verify_and_diagnose(&sendnomi, &[SECRET], &headers, b"{}").unwrap_err();
    assert_eq!(clues, [Diagnosis::Key(KeyMistake::Decoded), Diagnosis::OtherContract("standard".into())]);
    let headers = signed(&standard, SECRET, b"{}");
    let (mismatch, clues) =
        verify_and_diagnose(&standard, &[&format!("{SECRET}\n")], &headers, b"{}").unwrap_err();
    assert!(matches!(mismatch, Mismatch::UnusableSecret(_)), "{mismatch}");
    assert!(!mismatch.to_string().contains("AQEB"), "{mismatch}");
    assert_eq!(clues, [Diagnosis::Key(KeyMistake::Trimmed)]);
    let zerofee = fixtures::zerofee();
    let bare = SECRET.trim_start_matches("whsec_");
    let headers = signed(&zerofee, bare, b"{}");
    let (_, clues) = verify_and_diagnose(&zerofee, &[SECRET], &headers, b"{}").unwrap_err();
    assert_eq!(clues, [Diagnosis::Key(KeyMistake::TextWithoutPrefix)]);
}

#[test]
fn a_signature_of_another_text_or_in_another_encoding_is_recognised() {
    let (standard, orientedos) = (fixtures::standard(), fixtures::orientedos());
    let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, &[1; 32]);
    let mac = |text: &str| aws_lc_rs::hmac::sign(&key, text.as_bytes()).as_ref().to_vec();
    let of = |signature: String| {
        let mut headers = signed(&standard, SECRET, b"{}");
        set(&mut headers, "webhook-signature", |_| signature.clone());
        verify_and_diagnose(&standard, &[SECRET], &headers, b"{}").unwrap_err().1
    };
    let t = NOW.as_seconds();
    for (text, signed) in [("{}".to_owned(), "{body}"), (format!("{t}.{{}}"), "{t}.{body}")] {
        let clues = of(format!("v1,{}", BASE64_STANDARD.encode(mac(&text))));
        assert_eq!(clues, [Diagnosis::SignedText { signed, contract: "{id}.{t}.{body}".into() }]);
    }
    let right = mac(&format!("evt_1.{t}.{{}}"));
    let hex = right.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
    assert_eq!(of(format!("v1,{hex}")), [Diagnosis::Encoding { found: "hex", contract: "base64" }]);
    let unpadded = BASE64_STANDARD.encode(&right).trim_end_matches('=').to_owned();
    assert_eq!(
        of(format!("v1,{unpadded}")),
        [Diagnosis::Encoding { found: "base64 without its padding", contract: "base64" }]
    );
    for bare in [hex.clone(), BASE64_STANDARD.encode(&right), format!("v1={hex}")] {
        assert_eq!(of(bare), [Diagnosis::BareSignature { contract: "v1,{signature}".into() }]);
    }
    let mut headers = signed(&orientedos, SECRET, b"{}");
    set(&mut headers, "x-orientedos-signature", |value| value.to_uppercase().replace("SHA256=", "sha256="));
    let (_, clues) = verify_and_diagnose(&orientedos, &[SECRET], &headers, b"{}").unwrap_err();
    assert_eq!(clues, [Diagnosis::Encoding { found: "hex in capitals", contract: "hex" }]);
}

#[test]
fn missing_empty_and_foreign_headers_are_named() {
    let (standard, zerofee) = (fixtures::standard(), fixtures::zerofee());
    let headers = signed(&zerofee, SECRET, b"{}");
    let (mismatch, clues) = verify_and_diagnose(&standard, &[SECRET], &headers, b"{}").unwrap_err();
    assert_eq!(mismatch, Mismatch::MissingHeader("webhook-signature".into()));
    assert_eq!(clues, [Diagnosis::OtherContract("zerofee".into())], "with the same secret it is that");
    let (_, clues) = verify_and_diagnose(
        &standard,
        &["whsec_AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI="],
        &headers,
        b"{}",
    )
    .unwrap_err();
    let other = Diagnosis::OtherHeader { header: "x-zerofee-signature".into(), contract: "zerofee".into() };
    assert_eq!(clues, [other]);
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        let mut headers = signed(&standard, SECRET, b"{}");
        set(&mut headers, name, |_| String::new());
        let (mismatch, _) = verify_and_diagnose(&standard, &[SECRET], &headers, b"{}").unwrap_err();
        assert_eq!(mismatch, Mismatch::MissingHeader(name.into()));
        let mut headers = signed(&standard, SECRET, b"{}");
        headers.push((name.to_uppercase(), "x".into()));
        let (mismatch, _) = verify_and_diagnose(&standard, &[SECRET], &headers, b"{}").unwrap_err();
        assert_eq!(mismatch, Mismatch::RepeatedHeader(name.into()));
    }
    assert_eq!(verify_and_diagnose(&standard, &[], &headers, b"{}").unwrap_err().0, Mismatch::NoSecret);
}

/// Cases that every receiver kit must pass.
#[test]
fn the_cases_of_the_receiver_kits_come_out_as_they_do_there() {
    let vectors: Value = serde_json::from_str(include_str!("../../../../receivers/vectors.json")).unwrap();
    let contracts = fixtures::all();
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let (mut seen, mut otherwise) = (0, Vec::new());
    for case in vectors["cases"].as_array().unwrap().iter().filter(|case| case["brand"].is_null()) {
        let contract = contracts.iter().find(|contract| case["contract"] == contract.name).unwrap();
        let headers: Headers = case["headers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|pair| (pair[0].as_str().unwrap().into(), pair[1].as_str().unwrap().into()))
            .collect();
        let body = BASE64_STANDARD.decode(case["body"].as_str().unwrap()).unwrap();
        let secrets = texts(&case["secrets"]);
        let terms = VerifyOptions {
            contract,
            secrets: &secrets,
            now: Timestamp::from_millis(case["now"].as_i64().unwrap() * 1000),
            tolerance: Duration::from_secs(case["tolerance"].as_u64().unwrap()),
        };
        let received = IncomingRequest { headers: &headers, body: &body };
        let verified = verify(&terms, &received);
        let expected = match case["expect"].as_str().unwrap() {
            "ok" => "",
            // The sender's private key is accepted here: the sender itself verifies.
            "misconfigured" => "unusable_secret no_secret no_usable_signature",
            "timestamp_too_old" => "too_old",
            "timestamp_too_new" => "too_new",
            "signature_mismatch" => "wrong_signature",
            "missing_header" => "missing_header",
            "repeated_header" => "repeated_header",
            _ => "malformed_header no_usable_signature",
        };
        let code = verified.as_ref().err().map_or("", Mismatch::code);
        let fits =
            if expected.is_empty() { code.is_empty() } else { expected.split(' ').any(|one| one == code) };
        if !fits {
            otherwise.push(format!("{}: {verified:?}, where the kits say {}", case["name"], case["expect"]));
        }
        if let Err(mismatch) = &verified {
            diagnose(&terms, &received, mismatch, &contracts);
        }
        seen += 1;
    }
    assert!(otherwise.is_empty(), "{}", otherwise.join("\n"));
    assert!(seen > 350, "{seen}");
}
