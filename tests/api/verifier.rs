//! Receivers that verify as the articles of the contracts say, written without any code of the product, and ones with a gap.

use crate::harness::{Behaviour, ReceivedWebhook};
use aws_lc_rs::hmac;
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;
use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
};

const TOLERANCE_SECONDS: u64 = 300;

/// Behaviour of a receiver, right or wrong.
#[derive(Clone, Copy)]
pub(crate) struct ReceiverBehaviour {
    pub(crate) verifies: bool,
    /// Parses the body and writes it again before it verifies.
    pub(crate) rewrites: bool,
    pub(crate) has_tolerance: bool,
    /// Status for a bad signature; no response at all if `None`.
    pub(crate) to_forged: Option<u16>,
    /// Status for an id that came before.
    pub(crate) to_repeated: u16,
}

pub(crate) const PERFECT: ReceiverBehaviour = ReceiverBehaviour {
    verifies: true,
    rewrites: false,
    has_tolerance: true,
    to_forged: Some(401),
    to_repeated: 200,
};

/// A request as its signature sees it.
struct SignatureInput {
    id: String,
    t: Option<i64>,
    signed: Vec<u8>,
    signature: Option<Vec<u8>>,
}

pub(crate) fn receiver_with(contract: &'static str, secret: &str, habits: ReceiverBehaviour) -> Behaviour {
    let seen: Mutex<HashSet<String>> = Mutex::default();
    let key = match contract {
        "standard" => BASE64_STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap(),
        _ => secret.as_bytes().to_vec(),
    };
    let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
    Behaviour::Decide(Arc::new(move |receipt: &ReceivedWebhook| {
        let mut receipt = receipt.clone();
        if habits.rewrites {
            let parsed: Value = serde_json::from_slice(&receipt.body).unwrap();
            receipt.body = serde_json::to_vec(&parsed).unwrap().into();
        }
        let claim = read(contract, &receipt);
        let is_signed = claim.signature.is_some_and(|tag| hmac::verify(&key, &claim.signed, &tag).is_ok());
        if habits.verifies && !is_signed {
            return habits.to_forged;
        }
        if habits.has_tolerance && claim.t.is_some_and(|t| t.abs_diff(now()) > TOLERANCE_SECONDS) {
            return Some(400);
        }
        let is_new = seen.lock().unwrap().insert(claim.id);
        Some(if is_new { 200 } else { habits.to_repeated })
    }))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the server under test has the real clock, so must its receiver"
)]
fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

fn read(contract: &str, receipt: &ReceivedWebhook) -> SignatureInput {
    let body: Value = serde_json::from_slice(&receipt.body).unwrap();
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    let joined = |parts: &[&[u8]]| parts.join(&b'.');
    match contract {
        "standard" | "sendnomi" => {
            let (id, t) = (receipt.header("webhook-id"), receipt.header("webhook-timestamp"));
            let signature = receipt.header("webhook-signature").strip_prefix("v1,");
            SignatureInput {
                id: id.to_owned(),
                t: t.parse().ok(),
                signed: joined(&[id.as_bytes(), t.as_bytes(), &receipt.body]),
                signature: signature.and_then(|text| BASE64_STANDARD.decode(text).ok()),
            }
        }
        "zerofee" | "bastionary" => {
            let header = receipt.header(&format!("x-{contract}-signature"));
            let (t, signature) = header.strip_prefix("t=").and_then(|rest| rest.split_once(",v1=")).unwrap();
            SignatureInput {
                id: text(if contract == "zerofee" { "id" } else { "delivery_id" }),
                t: t.parse().ok(),
                signed: joined(&[t.as_bytes(), &receipt.body]),
                signature: hex(signature),
            }
        }
        _ => {
            let header = receipt.header(&format!("x-{contract}-signature"));
            let id = receipt.header("x-orientedos-delivery-id");
            SignatureInput {
                id: if contract == "orientedos" { id.to_owned() } else { text("event_id") },
                t: None,
                signed: receipt.body.to_vec(),
                signature: header.strip_prefix("sha256=").and_then(hex),
            }
        }
    }
}

fn hex(text: &str) -> Option<Vec<u8>> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
}
