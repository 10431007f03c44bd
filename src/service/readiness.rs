//! Readiness: whether this node accepts events, and if not, why.
//!
//! After a failed write the node is not ready until a write works again. After 5 s it is ready again even without one, because
//! a node without traffic would never try.

use crate::domain::{
    id::{AppId, EndpointId},
    time::Timestamp,
};
use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, AtomicU8, Ordering},
    },
    time::Duration,
};

/// Reason code for a store that cannot write.
pub(super) const STORE_CODE: &str = "store";

const STARTING: u8 = 0;
const ACCEPTING: u8 = 1;
const STOPPING: u8 = 2;

const STORE_RETRY_AFTER: Duration = Duration::from_secs(5);
const STORE_WORKS: i64 = i64::MIN;

#[derive(Debug)]
pub struct Readiness {
    phase: AtomicU8,
    store_failed_at_ms: AtomicI64,
    store_error: Mutex<String>,
    /// Endpoints that another node changed and that cannot be loaded here, with app and public id.
    unusable: Mutex<BTreeMap<EndpointId, (AppId, String)>>,
}

/// Reason for not being ready: a stable code, and a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotReady {
    pub code: &'static str,
    pub detail: String,
}

impl Default for Readiness {
    fn default() -> Self {
        Self {
            phase: AtomicU8::new(STARTING),
            store_failed_at_ms: AtomicI64::new(STORE_WORKS),
            store_error: Mutex::default(),
            unusable: Mutex::default(),
        }
    }
}

impl Readiness {
    /// Starts accepting events: the configuration is loaded.
    pub fn start_accepting(&self) {
        // A node that is already stopping does not start again.
        let _ = self.phase.compare_exchange(STARTING, ACCEPTING, Ordering::AcqRel, Ordering::Acquire);
    }

    pub fn stop(&self) {
        self.phase.store(STOPPING, Ordering::Release);
    }

    /// Records that a store write succeeded. Cheap enough to call after each.
    pub fn store_works(&self) {
        if self.store_failed_at_ms.load(Ordering::Relaxed) != STORE_WORKS {
            self.store_failed_at_ms.store(STORE_WORKS, Ordering::Relaxed);
            tracing::info!("the store takes writes again");
        }
    }

    pub fn store_failed(&self, error: &str, now: Timestamp) {
        if self.store_failed_at_ms.swap(now.as_millis(), Ordering::Relaxed) == STORE_WORKS {
            tracing::error!(error, "the store cannot write; events are refused until it can");
        }
        error.clone_into(&mut self.store_error.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Records that this node cannot use an endpoint as another node changed it.
    pub fn mark_unusable(&self, endpoint: EndpointId, of: AppId, called: &str) {
        self.unusable().insert(endpoint, (of, called.to_owned()));
    }

    /// Records that the endpoint is usable here, or deleted.
    pub fn mark_usable(&self, endpoint: EndpointId) {
        self.unusable().remove(&endpoint);
    }

    pub fn forget_app(&self, app: AppId) {
        self.unusable().retain(|_, (of, _)| *of != app);
    }

    fn unusable(&self) -> MutexGuard<'_, BTreeMap<EndpointId, (AppId, String)>> {
        self.unusable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports endpoints that cannot be used here because contracts or keys differ from those of other nodes.
    fn unusable_endpoints(&self) -> Option<NotReady> {
        let unusable = self.unusable();
        let (count, (_, (_, first))) = (unusable.len(), unusable.first_key_value()?);
        let detail = format!(
            "Endpoints that other nodes changed cannot be used here ({count}, `{first}` among them): give this node the contracts and encryption keys of the others."
        );
        Some(NotReady { code: "differs", detail })
    }

    /// Returns why this node accepts no events at all. A failing store is not included: only a write shows that it works again.
    pub fn not_accepting(&self) -> Option<NotReady> {
        match self.phase.load(Ordering::Acquire) {
            ACCEPTING => None,
            STARTING => Some(NotReady { code: "starting", detail: "This node is still starting.".into() }),
            _ => Some(NotReady { code: "stopping", detail: "This node is stopping.".into() }),
        }
    }

    /// Returns every reason to send traffic elsewhere; empty when ready.
    pub fn reasons(&self, now: Timestamp) -> Vec<NotReady> {
        let failed_at = Timestamp::from_millis(self.store_failed_at_ms.load(Ordering::Relaxed));
        let failing = failed_at.as_millis() != STORE_WORKS && now.since(failed_at) < STORE_RETRY_AFTER;
        let store = failing.then(|| {
            let error = self.store_error.lock().unwrap_or_else(PoisonError::into_inner);
            NotReady { code: STORE_CODE, detail: format!("The store cannot write: {error}") }
        });
        self.not_accepting().into_iter().chain(store).chain(self.unusable_endpoints()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(readiness: &Readiness, at_ms: i64) -> Vec<&'static str> {
        readiness.reasons(Timestamp::from_millis(at_ms)).into_iter().map(|reason| reason.code).collect()
    }

    #[test]
    fn a_node_is_ready_between_starting_and_stopping() {
        let readiness = Readiness::default();
        assert_eq!(codes(&readiness, 0), ["starting"]);
        readiness.start_accepting();
        assert!(codes(&readiness, 0).is_empty());
        readiness.stop();
        readiness.start_accepting();
        assert_eq!(codes(&readiness, 0), ["stopping"]);
    }

    #[test]
    fn a_node_is_not_ready_while_it_cannot_use_an_endpoint_that_another_node_changed() {
        let readiness = Readiness::default();
        readiness.start_accepting();
        for (id, called) in [(1, "one"), (2, "two")] {
            readiness.mark_unusable(EndpointId::from_i64(id), AppId::from_i64(7), called);
        }
        readiness.mark_usable(EndpointId::from_i64(1));
        let reasons = readiness.reasons(Timestamp::from_millis(0));
        assert_eq!(reasons[0].code, "differs");
        assert!(reasons[0].detail.contains("(1, `two` among them)"), "{}", reasons[0].detail);
        readiness.forget_app(AppId::from_i64(7));
        assert!(codes(&readiness, 0).is_empty());
    }

    #[test]
    fn a_store_that_cannot_write_is_reported_until_a_write_works_or_5_s_have_passed() {
        let readiness = Readiness::default();
        readiness.start_accepting();
        readiness.store_failed("disk full", Timestamp::from_millis(1_000));
        assert_eq!(
            readiness.reasons(Timestamp::from_millis(1_001))[0].detail,
            "The store cannot write: disk full"
        );
        assert!(readiness.not_accepting().is_none(), "publishing is tried all the same");
        assert_eq!(codes(&readiness, 5_999), ["store"]);
        assert!(codes(&readiness, 6_000).is_empty());
        readiness.store_failed("disk full", Timestamp::from_millis(7_000));
        readiness.store_works();
        assert!(codes(&readiness, 7_001).is_empty());
    }
}
