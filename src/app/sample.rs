//! The sample receiver of `posthaste dev`: verifies nothing, prints what comes, and fails now and then, so that a first
//! look also shows a retry.

use axum::{Router, body::Bytes, extract::State, http::HeaderMap, http::StatusCode};
use std::{
    collections::HashSet,
    io::Write,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::net::TcpListener;

/// Of the events it sees, each third one is refused at first.
const FAILS_EVERY: usize = 3;
/// Ids remembered; a sample may forget the oldest.
const REMEMBERED_MAX: usize = 100_000;

#[derive(Default)]
struct Seen(Mutex<HashSet<String>>);

impl Seen {
    /// Whether to refuse this event: only when it is seen for the first time, so that a retry works.
    fn refuses(&self, id: &str) -> bool {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= REMEMBERED_MAX {
            seen.clear();
        }
        seen.insert(id.to_owned()) && seen.len().is_multiple_of(FAILS_EVERY)
    }
}

/// Starts it on a free port of this machine.
pub(super) async fn start() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    let router = Router::new().fallback(receive).with_state(Arc::new(Seen::default()));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(address)
}

async fn receive(State(seen): State<Arc<Seen>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let id = headers.get("webhook-id").and_then(|id| id.to_str().ok()).unwrap_or("?");
    let (status, word) = if seen.refuses(id) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_third_event_is_refused_once() {
        let seen = Seen::default();
        let refused: Vec<bool> = ["a", "b", "c", "c", "d", "e", "f", "f"].map(|id| seen.refuses(id)).into();
        assert_eq!(refused, [false, false, true, false, false, false, true, false]);
    }
}
