//! Probes under each contract, and the evaluation of each response.

use super::{
    CheckName, InspectionFinding, InspectionReport,
    evaluate::InspectionEvaluator,
    probe::{INSPECTION_HEADER, InspectionProbe, InspectionSubject, ProbeRequest},
};
use crate::{
    app::{App, AppSettings},
    contract::{Contract, KeyForm, SignatureEncoding, Variable, fixtures},
    endpoint::{Endpoint, EndpointRecord, EndpointSettings},
    event::TEST_EVENT_TYPE,
    id::{AppId, EndpointId, InspectionId},
    outcome::{Outcome, OutcomeClass, Timings},
    request_headers::Header,
    secret::{self, Secret},
    signing_keys::SigningKeys,
    subscription::Patterns,
    target_url::TargetUrl,
    time::Timestamp,
};
use aws_lc_rs::hmac;
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use serde_json::Value;
use std::{collections::HashSet, sync::Arc};

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_123);
const ID: InspectionId = InspectionId::from_i64(1_000);

fn app() -> App {
    let settings = AppSettings { name: "Shop".into(), ..AppSettings::default() };
    App { id: AppId::from_i64(1), uid: "shop".into(), settings, created_at: NOW, updated_at: NOW }
}

/// Its secret was made a second ago: less than the age of the old timestamp.
fn endpoint(contract: Contract, secret: Option<String>) -> Endpoint {
    let contract = Arc::new(contract);
    let text = secret.unwrap_or_else(|| secret::generate(&contract.secret, &[7; 32]));
    let valid_from = Timestamp::from_millis(NOW.as_millis() - 1000);
    let secrets = vec![Secret { text, valid_from, valid_until: None }];
    Endpoint {
        record: EndpointRecord {
            id: EndpointId::from_i64(2),
            app: AppId::from_i64(1),
            uid: "e".into(),
            settings: EndpointSettings::default(),
            disabled: None,
            encrypted_headers: None,
            encrypted_tls: None,
            secrets: Vec::new(),
            revision: 1,
            created_at: NOW,
            updated_at: NOW,
        },
        target: TargetUrl::from_stored("https://example.com/").unwrap(),
        health_url: None,
        patterns: Patterns::parse(&["*".to_owned()]).unwrap(),
        contract_hash: contract.hash(),
        signing_keys: SigningKeys::prepare(&contract, &secrets).ok().map(Arc::new),
        contract,
        secrets,
        headers: Arc::new([]),
        tls: None,
        https_only: true,
    }
}

fn made(endpoint: &Endpoint, probe: InspectionProbe) -> ProbeRequest {
    let app = app();
    InspectionSubject::new(ID, &app, endpoint, NOW, [9; 32]).unwrap().request(probe, NOW).unwrap()
}

fn header<'a>(headers: &'a [Header], name: &str) -> &'a str {
    headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
}

fn signature(endpoint: &Endpoint, probe: InspectionProbe) -> String {
    header(&made(endpoint, probe).headers, &endpoint.contract.signature.header).to_owned()
}

/// As a receiver would compute it at `NOW`.
fn hmac_by_hand(endpoint: &Endpoint, id: &str, body: &str) -> String {
    let rule = &endpoint.contract.signature;
    let t = NOW.as_seconds().to_string();
    let text = rule.signs.source().replace("{id}", id).replace("{t}", &t).replace("{body}", body);
    let secret = endpoint.secrets[0].text.as_str();
    let key = match endpoint.contract.secret.key {
        KeyForm::Text => secret.as_bytes().to_vec(),
        KeyForm::Base64 => BASE64_STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap(),
    };
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), text.as_bytes());
    match rule.encoding {
        SignatureEncoding::Base64 => BASE64_STANDARD.encode(tag.as_ref()),
        SignatureEncoding::Hex => {
            let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
            tag.as_ref().iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
        }
    }
}

#[test]
fn every_probe_is_legal_json_that_says_that_it_is_a_test() {
    for contract in fixtures::all() {
        let endpoint = endpoint(contract, None);
        for probe in InspectionProbe::ALL {
            let request = made(&endpoint, probe);
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            let data = body.get("data").unwrap_or(&body);
            assert_eq!(
                (&data["test"], &data["inspection"]),
                (&Value::Bool(true), &Value::from(ID.to_string()))
            );
            assert_eq!(header(&request.headers, INSPECTION_HEADER), ID.to_string());
            assert!(String::from_utf8(request.body.to_vec()).unwrap().contains(TEST_EVENT_TYPE));
        }
    }
}

#[test]
fn the_tampered_body_differs_in_one_value_and_carries_the_signature_of_the_original() {
    for contract in fixtures::all() {
        let endpoint = endpoint(contract, None);
        let contract = endpoint.contract.clone();
        let request = made(&endpoint, InspectionProbe::Tampered);
        let text = String::from_utf8(request.body.to_vec()).unwrap();
        assert_eq!(text.matches("900").count(), 1, "{text}");
        let original = text.replace("\"amount\":900", "\"amount\":100");
        assert_ne!(original, text);
        let sent = header(&request.headers, &contract.signature.header);
        let signature_of = |body: &str| hmac_by_hand(&endpoint, header(&request.headers, "webhook-id"), body);
        assert!(sent.contains(&signature_of(&original)), "{}", contract.name);
        assert!(!sent.contains(&signature_of(&text)), "{}", contract.name);
    }
}

#[test]
fn the_old_request_is_signed_with_todays_secret_although_that_is_younger() {
    for contract in
        fixtures::all().into_iter().filter(|contract| InspectionProbe::OldTimestamp.applies_to(contract))
    {
        let endpoint = endpoint(contract, None);
        let old = NOW.as_seconds() - 3600;
        let request = made(&endpoint, InspectionProbe::OldTimestamp);
        let says_old = request.headers.iter().any(|(_, value)| value.contains(&old.to_string()));
        assert!(says_old, "{:?}", request.headers);
        assert!(!request.headers.iter().any(|(_, value)| value.contains(&NOW.as_seconds().to_string())));
    }
    let timeless: Vec<String> = fixtures::all()
        .into_iter()
        .filter(|contract| !InspectionProbe::OldTimestamp.applies_to(contract))
        .map(|contract| contract.name)
        .collect();
    assert_eq!(timeless, ["orientedos", "simpaisa"]);
}

#[test]
fn an_unknown_signature_has_the_form_of_a_known_one_also_for_ed25519() {
    let ed25519 = format!("whsk_{}", BASE64_STANDARD.encode([3; 32]));
    let mut endpoints: Vec<Endpoint> =
        fixtures::all().into_iter().map(|contract| endpoint(contract, None)).collect();
    endpoints.push(endpoint(fixtures::standard(), Some(ed25519)));
    for endpoint in endpoints {
        let (known, unknown) = (
            signature(&endpoint, InspectionProbe::Correct),
            signature(&endpoint, InspectionProbe::UnknownSignature),
        );
        assert_ne!(known, unknown);
        assert_eq!(known.len(), unknown.len(), "{known} {unknown}");
        assert_eq!(known.split([',', '=']).next(), unknown.split([',', '=']).next());
    }
}

#[test]
fn only_the_repeated_probe_reuses_the_ids_and_the_body_of_another() {
    for contract in fixtures::all() {
        let names_t = contract.signature.signs.contains(Variable::T);
        let endpoint = endpoint(contract, None);
        let app = app();
        let subject = InspectionSubject::new(ID, &app, &endpoint, NOW, [9; 32]).unwrap();
        let later = Timestamp::from_millis(NOW.as_millis() + 2000);
        let first = subject.request(InspectionProbe::Correct, NOW).unwrap();
        let again = subject.request(InspectionProbe::Repeated, later).unwrap();
        assert_eq!(first.body, again.body);
        let signature =
            |request: &ProbeRequest| header(&request.headers, &endpoint.contract.signature.header).to_owned();
        assert_eq!(signature(&first) != signature(&again), names_t, "a fresh timestamp, where there is one");
        let bodies: HashSet<Bytes> =
            InspectionProbe::ALL.iter().map(|probe| subject.request(*probe, NOW).unwrap().body).collect();
        assert_eq!(bodies.len(), InspectionProbe::ALL.len() - 1);
    }
}

#[test]
fn the_odd_body_survives_only_where_bytes_are_kept() {
    let endpoint = endpoint(fixtures::standard(), None);
    let body = made(&endpoint, InspectionProbe::OddJson).body;
    let text = std::str::from_utf8(&body).unwrap();
    for odd in
        ["😀", "\\ud83d\\ude00", "\u{2028}", "\\u2028", "1.0", "1e5", "12345678901234567890", "\"\":", "<"]
    {
        assert!(text.contains(odd), "{odd:?} in {text}");
    }
    let value: Value = serde_json::from_slice(&body).unwrap();
    assert_ne!(serde_json::to_vec(&value).unwrap(), body, "a serialiser writes it differently");
}

#[test]
fn an_endpoint_without_a_usable_secret_cannot_be_probed_and_says_so() {
    let mut endpoint = endpoint(fixtures::standard(), None);
    endpoint.secrets.clear();
    let app = app();
    let Err(error) = InspectionSubject::new(ID, &app, &endpoint, NOW, [9; 32]) else {
        panic!("signed with nothing")
    };
    let mut evaluate = InspectionEvaluator::new(&endpoint.contract);
    evaluate.record_unsendable(InspectionProbe::Correct, &error);
    assert!(!evaluate.should_continue());
    let report = evaluate.into_report();
    assert_eq!(report.checks[0].finding, InspectionFinding::Failed);
    assert!(report.checks[0].came_back.contains("no secret that is valid now"), "{report:?}");
}

fn answer(status: u16) -> Outcome {
    let timings = Timings { total_us: 12_000, ..Timings::default() };
    Outcome { status: Some(status), error: None, timings, ..Outcome::failed(OutcomeClass::Http, "") }
}

fn finding(probe: InspectionProbe, outcome: Outcome) -> InspectionFinding {
    let contract = fixtures::standard();
    let mut evaluate = InspectionEvaluator::new(&contract);
    evaluate.record_response(probe, outcome);
    evaluate.into_report().checks[0].finding
}

#[test]
fn forged_requests_must_be_refused_with_a_4xx() {
    use InspectionFinding::{Failed, Passed, Unknown};
    for probe in [InspectionProbe::Tampered, InspectionProbe::OldTimestamp, InspectionProbe::UnknownSignature]
    {
        for (status, expected) in [
            (200, Failed),
            (204, Failed),
            (302, Failed),
            (400, Passed),
            (401, Passed),
            (403, Passed),
            (410, Passed),
            (429, Unknown),
            (408, Unknown),
            (500, Failed),
            (503, Failed),
        ] {
            assert_eq!(finding(probe, answer(status)), expected, "{probe:?} {status}");
        }
        for (class, expected) in [
            (OutcomeClass::Timeout, Failed),
            (OutcomeClass::Connect, Failed),
            (OutcomeClass::Local, Unknown),
            (OutcomeClass::Dns, Unknown),
        ] {
            assert_eq!(finding(probe, Outcome::failed(class, "x")), expected, "{probe:?} {class:?}");
        }
    }
}

#[test]
fn correct_requests_must_be_accepted_as_the_contract_means_it() {
    use InspectionFinding::{Failed, Passed, Unknown};
    for probe in [InspectionProbe::Correct, InspectionProbe::Repeated, InspectionProbe::OddJson] {
        let busy = if probe == InspectionProbe::Correct { Failed } else { Unknown };
        for (status, expected) in [
            (200, Passed),
            (204, Passed),
            (302, Failed),
            (409, Failed),
            (410, Failed),
            (429, busy),
            (500, Failed),
        ] {
            assert_eq!(finding(probe, answer(status)), expected, "{probe:?} {status}");
        }
        assert_eq!(finding(probe, Outcome::failed(OutcomeClass::Timeout, "x")), Failed);
        assert_eq!(finding(probe, Outcome::failed(OutcomeClass::Local, "x")), Unknown);
    }
}

#[test]
fn a_refused_correct_delivery_leaves_the_other_probes_unknown() {
    let contract = fixtures::zerofee();
    let mut evaluate = InspectionEvaluator::new(&contract);
    evaluate.record_response(
        InspectionProbe::Correct,
        Outcome { response_body: "no\r\nsuch <key>".into(), ..answer(401) },
    );
    assert!(!evaluate.should_continue());
    for probe in &InspectionProbe::ALL[1..] {
        evaluate.record_not_sent(*probe);
    }
    evaluate.record_health(None);
    let report = evaluate.into_report();
    let findings: Vec<InspectionFinding> = report.checks.iter().map(|check| check.finding).collect();
    let mut expected = vec![InspectionFinding::Unknown; 8];
    (expected[0], expected[7]) = (InspectionFinding::Failed, InspectionFinding::DoesNotApply);
    assert_eq!(findings, expected);
    for check in &report.checks[1..6] {
        assert!(check.came_back.contains("HTTP 401 after 12 ms, saying “no such <key>”"), "{check:?}");
    }
}

#[test]
fn a_probe_that_does_not_apply_advises_to_remember_ids() {
    for (contract, warns) in [(fixtures::orientedos(), false), (fixtures::simpaisa(), true)] {
        let mut evaluate = InspectionEvaluator::new(&contract);
        evaluate.record_not_sent(InspectionProbe::OldTimestamp);
        let check = evaluate.into_report().checks.remove(0);
        assert_eq!(check.finding, InspectionFinding::DoesNotApply);
        let advice = check.advice.unwrap();
        assert!(advice.contains("{body}") && advice.contains("remember every id"), "{advice}");
        assert_eq!(advice.contains("A timestamp in a header"), warns, "{advice}");
    }
}

#[test]
fn the_slowest_accepted_response_is_compared_with_the_advised_limit_and_the_timeout() {
    let time = |contract: &Contract, seconds: &[f64]| {
        let mut evaluate = InspectionEvaluator::new(contract);
        for (probe, seconds) in [InspectionProbe::Correct, InspectionProbe::Repeated].into_iter().zip(seconds)
        {
            let timings = Timings { total_us: (seconds * 1e6) as u32, ..Timings::default() };
            evaluate.record_response(probe, Outcome { timings, ..answer(200) });
        }
        evaluate.record_response(
            InspectionProbe::Tampered,
            Outcome { timings: Timings { total_us: 60_000_000, ..Timings::default() }, ..answer(401) },
        );
        let report = evaluate.into_report();
        report.checks.into_iter().find(|check| check.name == CheckName::AnswerTime).unwrap()
    };
    assert_eq!(time(&fixtures::standard(), &[0.1, 5.0]).finding, InspectionFinding::Passed);
    let slow = time(&fixtures::standard(), &[5.1, 0.1]);
    assert_eq!((slow.finding, slow.duration_ms), (InspectionFinding::Failed, Some(5100)));
    assert!(slow.why.contains("15s") && slow.why.contains("5s"), "{slow:?}");
    let mut hurried = fixtures::standard();
    hurried.timeout = std::time::Duration::from_secs(2);
    assert_eq!(time(&hurried, &[2.1, 0.1]).finding, InspectionFinding::Failed);
}

#[test]
fn a_health_address_must_answer_2xx() {
    let contract = fixtures::standard();
    let health = |outcome: Option<Outcome>| {
        let mut evaluate = InspectionEvaluator::new(&contract);
        evaluate.record_health(outcome.as_ref());
        let mut report = evaluate.into_report();
        assert_eq!(report.checks.len(), 1, "a ping has no other check");
        report.checks.remove(0)
    };
    assert_eq!(health(None).finding, InspectionFinding::DoesNotApply);
    assert!(health(None).advice.unwrap().contains("health_url"));
    assert_eq!(health(Some(answer(204))).finding, InspectionFinding::Passed);
    for status in [199, 302, 401, 404, 503] {
        assert_eq!(health(Some(answer(status))).finding, InspectionFinding::Failed, "{status}");
    }
    assert_eq!(health(Some(Outcome::failed(OutcomeClass::Timeout, "x"))).finding, InspectionFinding::Failed);
    assert_eq!(health(Some(Outcome::failed(OutcomeClass::Local, "x"))).finding, InspectionFinding::Unknown);
}

#[test]
fn every_check_that_does_not_pass_has_advice() {
    for contract in fixtures::all() {
        for probe in InspectionProbe::ALL {
            for status in 100..600 {
                let mut evaluate = InspectionEvaluator::new(&contract);
                evaluate.record_response(probe, answer(status));
                let check = evaluate.into_report().checks.remove(0);
                assert!(
                    check.finding == InspectionFinding::Passed || check.advice.is_some(),
                    "{probe:?} {status}"
                );
                assert!(![check.sent, check.came_back, check.why].iter().any(String::is_empty));
            }
        }
    }
}

#[test]
fn a_report_reads_back_from_its_json() {
    let contract = fixtures::standard();
    let mut evaluate = InspectionEvaluator::new(&contract);
    evaluate.record_response(InspectionProbe::Correct, answer(200));
    evaluate.record_health(None);
    let report = evaluate.into_report();
    let text = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<InspectionReport>(&text).unwrap(), report);
    assert!(text.contains("\"correct_delivery\"") && text.contains("\"does_not_apply\""), "{text}");
}
