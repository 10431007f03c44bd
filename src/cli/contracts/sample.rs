//! A sample request as a receiver would see it, made by the code that makes the real ones.

use crate::domain::{
    body::{self, EventParts},
    contract::{Contract, KeyForm},
    id::{AttemptId, DeliveryId, EventId},
    request_headers::{self, RequestParts},
    secret::Secret,
    signing_keys::SigningKeys,
    time::Timestamp,
};

/// The secret of the sample under contracts whose key is the secret's text.
const TEXT_SECRET: &str = "whsec_sample-secret-of-the-docs";
/// The secret of the sample under contracts whose key is decoded from what follows the prefix.
const BASE64_SECRET: &str = "whsec_c2FtcGxlLXNlY3JldC1vZi10aGUtZG9jcyE=";
/// 2026-11-15T09:30:00.123Z; the attempt starts two seconds later.
const CREATED_AT: Timestamp = Timestamp::from_millis(1_794_735_000_123);
const STARTED_AT: Timestamp = Timestamp::from_millis(1_794_735_002_123);
const SAMPLE_EVENT: EventId = EventId::from_i64(389_200_231_104_512_000);
const SAMPLE_DELIVERY: DeliveryId = DeliveryId::from_i64(389_200_231_104_512_001);

pub(super) struct SampleRequest {
    pub secret: &'static str,
    pub body: String,
    /// The contract's headers without the user agent, which may name this product's version.
    pub headers: Vec<(String, String)>,
}

/// Renders the sample. `None` for a contract whose secrets the sample cannot imitate.
pub(super) fn sample_request(contract: &Contract) -> Option<SampleRequest> {
    let public_id = SAMPLE_EVENT.with_prefix(&contract.ids.event);
    let event = EventParts {
        public_id: &public_id,
        own_id: SAMPLE_EVENT,
        event_type: contract.event_types.get(1).map_or("payment.completed", String::as_str),
        created_at: CREATED_AT,
        data: r#"{"order": 1001, "amount": "12.50", "shop": "Café"}"#.as_bytes(),
        app_uid: "merchant-17",
        livemode: true,
        payload_version: "1",
    };
    let body = body::render(contract, &event, SAMPLE_DELIVERY).ok()?;
    let secret = match contract.secret.key {
        KeyForm::Text => TEXT_SECRET,
        KeyForm::Base64 => BASE64_SECRET,
    };
    let valid = Secret { text: secret.to_owned(), valid_from: Timestamp::from_millis(0), valid_until: None };
    let signing_keys = SigningKeys::prepare(contract, &[valid]).ok()?;
    let parts = RequestParts {
        event: &event,
        root: SAMPLE_DELIVERY,
        attempt: AttemptId { delivery: SAMPLE_DELIVERY, position: 1 },
        number: 1,
        now: STARTED_AT,
        body: &body,
    };
    let headers = request_headers::render_headers(contract, &signing_keys, &parts).ok()?;
    let headers = headers.into_iter().map(|(name, value)| (name.into_owned(), value));
    Some(SampleRequest {
        secret,
        body: String::from_utf8_lossy(&body).into_owned(),
        headers: headers.filter(|(name, _)| name != "user-agent").collect(),
    })
}
