//! The sample receiver of `posthaste dev`: verifies deliveries, prints them, and fails now and then, so that a first try
//! also shows a retry. It has every protection that `posthaste inspect` looks for.

use crate::runtime::{Clock, SystemClock};
use aws_lc_rs::hmac;
use axum::{Router, body::Bytes, extract::State, http::HeaderMap, http::StatusCode, routing};
use base64::{Engine, prelude::BASE64_STANDARD};
use std::{
    collections::HashSet,
    io::Write,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::net::TcpListener;

/// Refuses each third event at first.
const FAILURE_INTERVAL: usize = 3;
/// Limit of remembered ids. Then it forgets all of them, which a sample may do.
const REMEMBERED_IDS_MAX: usize = 100_000;
const TOLERANCE_SECONDS: i64 = 300;

/// Returns the current secrets. Called for every request, so that a rotation takes effect at once.
pub(super) type SecretSource = Box<dyn Fn() -> Vec<String> + Send + Sync>;

struct SampleState {
    secrets: SecretSource,
    seen: SeenIds,
}

#[derive(Default)]
struct SeenIds(Mutex<HashSet<String>>);

impl SeenIds {
    /// Whether to refuse this event: only when it is seen for the first time, so that a retry works.
    fn refuses(&self, id: &str) -> bool {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= REMEMBERED_IDS_MAX {
            seen.clear();
        }
        seen.insert(id.to_owned()) && seen.len().is_multiple_of(FAILURE_INTERVAL)
    }
}

/// Starts the receiver on a free port of this machine. `/health` answers 200; every other path takes deliveries.
pub(super) async fn start(secrets: SecretSource) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    let sample = Arc::new(SampleState { secrets, seen: SeenIds::default() });
    let router = Router::new()
        .route("/health", routing::get(async || StatusCode::OK))
        .fallback(receive)
        .with_state(sample);
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(address)
}

async fn receive(State(sample): State<Arc<SampleState>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let id = header("webhook-id");
    let signed = SignedParts { id, timestamp: header("webhook-timestamp"), body: &body };
    let now = SystemClock.now().as_seconds();
    let (status, word) = if !signed.is_genuine(header("webhook-signature"), &(sample.secrets)()) {
        (StatusCode::UNAUTHORIZED, "refused (401), its signature is wrong")
    } else if !signed.is_recent(now) {
        (StatusCode::BAD_REQUEST, "refused (400), its timestamp is not of the last five minutes")
    } else if !headers.contains_key("posthaste-inspection") && sample.seen.refuses(id) {
        (StatusCode::SERVICE_UNAVAILABLE, "refused on purpose (503), it will be tried again")
    } else {
        (StatusCode::OK, "received")
    };
    let visible = |c: char| if c.is_control() { '·' } else { c };
    let text: String = String::from_utf8_lossy(&body).chars().take(200).map(visible).collect();
    // A closed terminal is no reason to fail.
    let _ = writeln!(std::io::stdout(), "sample receiver: {word}: {text}");
    status
}

/// The input of a Standard Webhooks signature.
struct SignedParts<'a> {
    id: &'a str,
    timestamp: &'a str,
    body: &'a [u8],
}

impl SignedParts<'_> {
    /// Whether one of the `v1` signatures was made with one of the secrets.
    fn is_genuine(&self, signatures: &str, secrets: &[String]) -> bool {
        let mut text = format!("{}.{}.", self.id, self.timestamp).into_bytes();
        text.extend_from_slice(self.body);
        let given = signatures.split(' ').filter_map(|one| one.strip_prefix("v1,"));
        let given: Vec<Vec<u8>> = given.filter_map(|one| BASE64_STANDARD.decode(one).ok()).collect();
        secrets.iter().any(|secret| {
            let bytes = BASE64_STANDARD.decode(secret.trim_start_matches("whsec_")).unwrap_or_default();
            let key = hmac::Key::new(hmac::HMAC_SHA256, &bytes);
            given.iter().any(|signature| hmac::verify(&key, &text, signature).is_ok())
        })
    }

    fn is_recent(&self, now: i64) -> bool {
        self.timestamp.parse::<i64>().is_ok_and(|at| (now - at).abs() <= TOLERANCE_SECONDS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_third_event_is_refused_once() {
        let seen = SeenIds::default();
        let refused: Vec<bool> = ["a", "b", "c", "c", "d", "e", "f", "f"].map(|id| seen.refuses(id)).into();
        assert_eq!(refused, [false, false, true, false, false, false, true, false]);
    }

    #[test]
    fn a_request_is_genuine_if_signed_with_the_secret_and_recent_within_the_tolerance() {
        let secret = format!("whsec_{}", BASE64_STANDARD.encode([7; 32]));
        let key = hmac::Key::new(hmac::HMAC_SHA256, &[7; 32]);
        let signature = format!("v1,{}", BASE64_STANDARD.encode(hmac::sign(&key, b"a.1000.{}").as_ref()));
        let signed = |body| SignedParts { id: "a", timestamp: "1000", body };
        assert!(signed(b"{}").is_genuine(&signature, std::slice::from_ref(&secret)));
        assert!(signed(b"{}").is_genuine(&format!("v1a,x {signature}"), &["whsec_".into(), secret.clone()]));
        assert!(!signed(b"{ }").is_genuine(&signature, std::slice::from_ref(&secret)));
        assert!(!signed(b"{}").is_genuine("", &[secret]));
        assert!(signed(b"").is_recent(1300) && !signed(b"").is_recent(1301) && !signed(b"").is_recent(699));
    }
}
