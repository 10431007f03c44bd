//! Headers and signatures under every contract, checked against values computed elsewhere.

use super::*;
use crate::{contract::fixtures, id::EventId, secret::Secret};
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use proptest::prelude::*;
use std::collections::BTreeMap;

const NOW: Timestamp = Timestamp::from_millis(1_614_265_330_999);
const VECTOR_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const TEXT_SECRET: &str = "a text of enough bytes, é included";

fn secret(text: &str, from: i64, until: Option<i64>) -> Secret {
    let at = Timestamp::from_millis;
    Secret { text: text.into(), valid_from: at(from), valid_until: until.map(at) }
}

fn event(public_id: &str) -> EventParts<'_> {
    EventParts {
        public_id,
        own_id: EventId::from_i64(1),
        event_type: "payment.created",
        created_at: Timestamp::from_millis(0),
        data: b"{}",
        app_uid: "merchant-7",
        livemode: false,
        payload_version: "1",
    }
}

fn rendered(contract: &Contract, secrets: &[Secret], id: &str, body: &[u8]) -> BTreeMap<String, String> {
    let signing_keys = SigningKeys::prepare(contract, secrets).unwrap();
    let attempt = AttemptId { delivery: DeliveryId::from_i64(3), position: 5 };
    let event = event(id);
    let request =
        RequestParts { event: &event, root: DeliveryId::from_i64(2), attempt, number: 4, now: NOW, body };
    let headers = render_headers(contract, &signing_keys, &request).unwrap();
    let count = headers.len();
    let by_name: BTreeMap<_, _> =
        headers.into_iter().map(|(name, value)| (name.into_owned(), value)).collect();
    assert_eq!(by_name.len(), count, "every name once");
    by_name
}

#[test]
fn the_vector_of_the_standard_webhooks_libraries_is_reproduced() {
    let headers = rendered(
        &fixtures::standard(),
        &[secret(VECTOR_SECRET, 0, None)],
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        br#"{"test": 2432232314}"#,
    );
    assert_eq!(headers["webhook-signature"], "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    assert_eq!(headers["webhook-id"], "msg_p5jXN8AQM9LWM0D4loKWxJek");
    assert_eq!(headers["webhook-timestamp"], "1614265330");
    assert_eq!(headers["content-type"], "application/json");
    assert_eq!(headers["user-agent"], format!("Posthaste/{}", env!("CARGO_PKG_VERSION")));
    assert_eq!(headers.len(), 5);
}

// The expected signatures were computed with Python's hmac over the texts that the articles say are signed.
#[test]
fn every_contract_has_its_own_headers() {
    let body = br#"{"a":1}"#;
    let cases: [(Contract, &[(&str, &str)]); 5] = [
        (
            fixtures::zerofee(),
            &[
                ("user-agent", "ZeroFee-Webhook/1.0"),
                ("x-zerofee-event", "payment.created"),
                ("x-zerofee-delivery", "del_00000000000035"),
                ("x-zerofee-timestamp", "1614265330"),
                (
                    "x-zerofee-signature",
                    "t=1614265330,v1=cbbbc594ed7574c896acc74907bcd2b42fb9600a1c98e20d0bc780fd992c7094",
                ),
            ],
        ),
        (
            fixtures::bastionary(),
            &[
                ("x-bastionary-event", "payment.created"),
                ("x-bastionary-delivery", "dlv_0000000000002"),
                (
                    "x-bastionary-signature",
                    "t=1614265330,v1=cbbbc594ed7574c896acc74907bcd2b42fb9600a1c98e20d0bc780fd992c7094",
                ),
            ],
        ),
        (
            fixtures::orientedos(),
            &[
                ("user-agent", "OrientedOS-Webhooks/1.0"),
                ("x-orientedos-event", "payment.created"),
                ("x-orientedos-delivery-id", "dlv_0000000000002"),
                (
                    "x-orientedos-signature",
                    "sha256=c9c328e9ed0bedc1207b528ac854deacbd198205ddda412c185415befc306e7d",
                ),
            ],
        ),
        (
            fixtures::sendnomi(),
            &[
                ("webhook-id", "evt_0000000000001"),
                ("webhook-timestamp", "1614265330"),
                ("webhook-signature", "v1,Yp3SMEJh+vylfMtCtCZElrEBPJMzFXfnZ9f3+8aEQ0A="),
            ],
        ),
        (
            fixtures::simpaisa(),
            &[
                ("user-agent", "Simpaisa-Webhooks/1.0"),
                ("x-simpaisa-event-id", "evt_0000000000001"),
                ("x-simpaisa-event-type", "payment.created"),
                ("x-simpaisa-timestamp", "1614265330"),
                ("x-simpaisa-delivery-attempt", "4"),
                (
                    "x-simpaisa-signature",
                    "sha256=c9c328e9ed0bedc1207b528ac854deacbd198205ddda412c185415befc306e7d",
                ),
            ],
        ),
    ];
    for (contract, expected) in cases {
        let headers = rendered(&contract, &[secret(TEXT_SECRET, 0, None)], "evt_0000000000001", body);
        for (name, value) in expected {
            assert_eq!(headers[*name], *value, "{} {name}", contract.name);
        }
        let own_agent = !expected.iter().any(|(name, _)| *name == "user-agent");
        assert_eq!(headers.len(), expected.len() + 1 + usize::from(own_agent), "{}", contract.name);
        assert_eq!(headers["content-type"], "application/json");
    }
}

#[test]
fn a_signed_id_with_a_dot_is_replaced_by_the_event_s_own_id() {
    let signed_id = |contract: &Contract, header, id| {
        let text = if contract.name == "standard" { VECTOR_SECRET } else { TEXT_SECRET };
        rendered(contract, &[secret(text, 0, None)], id, b"{}")[header].clone()
    };
    assert_eq!(signed_id(&fixtures::standard(), "webhook-id", "a.b"), "evt_0000000000001");
    assert_eq!(signed_id(&fixtures::standard(), "webhook-id", "a:b"), "a:b");
    assert_eq!(signed_id(&fixtures::sendnomi(), "webhook-id", "a.b"), "msg_0000000000001");
    assert_eq!(signed_id(&fixtures::simpaisa(), "x-simpaisa-event-id", "a.b:c"), "a.b:c", "not signed there");
}

#[test]
fn both_secrets_sign_during_a_rotation_under_standard_and_one_elsewhere() {
    let new = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let now = NOW.as_millis();
    let rotating = [secret(VECTOR_SECRET, 0, Some(now + 1)), secret(new, now, None)];
    let count = |contract: &Contract, secrets: &[Secret]| {
        rendered(contract, secrets, "id", b"{}")["webhook-signature"].split(' ').count()
    };
    assert_eq!(count(&fixtures::standard(), &rotating), 2);
    let over = [secret(VECTOR_SECRET, 0, Some(now)), secret(new, now, None)];
    assert_eq!(count(&fixtures::standard(), &over), 1);
    for contract in [fixtures::zerofee(), fixtures::sendnomi()] {
        let header = &contract.signature.header;
        let with = |secrets: &[Secret]| rendered(&contract, secrets, "id", b"{}")[header].clone();
        assert_eq!(with(&rotating), with(&[secret(new, now, None)]), "the newest takes over at its instant");
        let early = [secret(VECTOR_SECRET, 0, None), secret(new, now + 1, None)];
        assert_eq!(with(&early), with(&[secret(VECTOR_SECRET, 0, None)]), "and not before");
    }
}

#[test]
fn an_ed25519_key_signs_as_v1a_beside_an_hmac_secret() {
    let seed = [7; 32];
    let key = format!("whsk_{}", BASE64_STANDARD.encode(seed));
    let contract = fixtures::standard();
    let body = br#"{"a":1}"#;
    let both = [secret(VECTOR_SECRET, 0, None), secret(&key, 1, None)];
    let headers = rendered(&contract, &both, "id", body);
    let signatures: Vec<_> = headers["webhook-signature"].split(' ').collect();
    assert!(signatures[1].starts_with("v1,"));
    let signature = BASE64_STANDARD.decode(signatures[0].strip_prefix("v1a,").unwrap()).unwrap();
    let pair = Ed25519KeyPair::from_seed_unchecked(&seed).unwrap();
    let text = [b"id.1614265330.".as_slice(), body].concat();
    UnparsedPublicKey::new(&ED25519, pair.public_key()).verify(&text, &signature).unwrap();

    let with_public = [&seed[..], pair.public_key().as_ref()].concat();
    let long = format!("whsk_{}", BASE64_STANDARD.encode(with_public));
    let again = rendered(&contract, &[secret(&long, 0, None)], "id", body);
    assert_eq!(again["webhook-signature"], signatures[0]);
    let mismatched = format!("whsk_{}", BASE64_STANDARD.encode([7; 64]));
    assert!(SigningKeys::prepare(&contract, &[secret(&mismatched, 0, None)]).is_err());
}

#[test]
fn without_a_valid_secret_nothing_is_signed() {
    let contract = fixtures::standard();
    let event = event("id");
    let attempt = AttemptId { delivery: DeliveryId::from_i64(3), position: 1 };
    let request =
        RequestParts { event: &event, root: attempt.delivery, attempt, number: 1, now: NOW, body: b"{}" };
    for secrets in [vec![], vec![secret(VECTOR_SECRET, 0, Some(NOW.as_millis()))]] {
        let signing_keys = SigningKeys::prepare(&contract, &secrets).unwrap();
        assert_eq!(render_headers(&contract, &signing_keys, &request), Err(SigningError::NoValidSecret));
    }
    let refusal = SigningKeys::prepare(&contract, &[secret("whsec_marker", 0, None)]).unwrap_err();
    assert!(!refusal.to_string().contains("marker"));
}

#[test]
fn a_node_whose_clock_is_behind_the_first_secret_signs_with_it_and_no_later_one() {
    let (standard, behind) = (fixtures::standard(), NOW.as_millis() + 30_000);
    let signature =
        |secrets: &[Secret]| rendered(&standard, secrets, "id", b"{}")["webhook-signature"].clone();
    let (ours, other) = (VECTOR_SECRET, format!("whsec_{}", BASE64_STANDARD.encode([7; 32])));
    let expected = signature(&[secret(ours, 0, None)]);
    assert_eq!(signature(&[secret(ours, behind, None)]), expected);
    assert_eq!(signature(&[secret(&other, behind + 1, None), secret(ours, behind, None)]), expected);
    assert_eq!(signature(&[secret(ours, 0, Some(behind)), secret(&other, behind, None)]), expected);
}

proptest! {
    #[test]
    fn the_standardwebhooks_library_agrees(
        body: String,
        key in prop::collection::vec(any::<u8>(), 24..=64),
        id in "[A-Za-z0-9_:~-]{1,40}",
    ) {
        let text = format!("whsec_{}", BASE64_STANDARD.encode(key));
        let headers = rendered(&fixtures::standard(), &[secret(&text, 0, None)], &id, body.as_bytes());
        let library = standardwebhooks::Webhook::new(&text).unwrap();
        let expected = library.sign(&id, NOW.as_seconds(), body.as_bytes()).unwrap();
        prop_assert_eq!(&headers["webhook-signature"], &expected);
    }
}
