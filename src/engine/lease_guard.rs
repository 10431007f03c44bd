//! Guard of a leased delivery: it comes back to the store whatever happens to its delivery worker: a panic, an abort at the
//! end of the grace period, or an early return.

use crate::{
    domain::{
        contract::{Contract, ContractHash},
        endpoint::Disabled,
        health::HealthSample,
        outcome::{Attempt, Outcome, OutcomeClass},
        ports::LeasedDelivery,
        time::Timestamp,
        verdict::Verdict,
    },
    runtime::Clock,
    store::{Store, deliveries::DeliveryResult},
};
use std::sync::Arc;

pub(super) struct LeaseGuard {
    leased: Option<LeasedDelivery>,
    /// Since when a request may be on its way.
    sent_at: Option<Timestamp>,
    attempts: Vec<Attempt>,
    /// History note on why it is sent when it is.
    note: Option<String>,
    store: Store,
    clock: Arc<dyn Clock>,
}

impl LeaseGuard {
    pub(super) fn new(
        leased: LeasedDelivery,
        note: Option<String>,
        store: Store,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { leased: Some(leased), sent_at: None, attempts: Vec::new(), note, store, clock }
    }

    pub(super) fn leased(&self) -> Option<&LeasedDelivery> {
        self.leased.as_ref()
    }

    /// Marks the start of a request: from here on the receiver may have seen it.
    pub(super) fn mark_sent(&mut self, at: Timestamp) {
        self.sent_at = Some(at);
    }

    /// Marks the request as not made after all.
    pub(super) fn mark_not_sent(&mut self) {
        self.sent_at = None;
    }

    /// Adds the finished request as a row of history.
    pub(super) fn add_attempt(&mut self, attempt: Attempt) {
        self.sent_at = None;
        self.attempts.push(Attempt { note: self.note.clone(), ..attempt });
    }

    /// Appends to the history note of the last request.
    pub(super) fn append_note(&mut self, words: &str) {
        if let Some(last) = self.attempts.last_mut() {
            last.note =
                Some(last.note.take().map_or_else(|| words.to_owned(), |note| format!("{note}; {words}")));
        }
    }

    pub(super) fn attempts(&self) -> &[Attempt] {
        &self.attempts
    }

    /// Passes the verdict to the store, which keeps it until it is durable.
    pub(super) fn record(
        mut self,
        verdict: Verdict,
        disable: Option<Disabled>,
        health_sample: Option<HealthSample>,
        ended_at: Timestamp,
        contract: &Arc<Contract>,
    ) {
        let attempts = std::mem::take(&mut self.attempts);
        if let Some(leased) = self.leased.take() {
            let contract = Some(contract.clone());
            self.store.record_result(DeliveryResult {
                leased,
                attempts,
                verdict,
                disable,
                health_sample,
                ended_at,
                contract,
            });
        }
    }
}

impl Drop for LeaseGuard {
    fn drop(&mut self) {
        let Some(leased) = self.leased.take() else { return };
        let now = self.clock.now();
        if let Some(started_at) = self.sent_at {
            let error = "this node stopped waiting for the answer; the request may have arrived";
            self.attempts.push(Attempt {
                started_at,
                outcome: Outcome::failed(OutcomeClass::Unknown, error),
                contract: ContractHash([0; 16]),
                endpoint_revision: 0,
                url: None,
                note: self.note.take(),
            });
        }
        if self.attempts.is_empty() {
            // The result is not awaited: the command is queued as soon as it is called.
            drop(self.store.release(vec![leased], now));
            return;
        }
        let attempts = std::mem::take(&mut self.attempts);
        let verdict = Verdict::RetryUncounted { due: now };
        // This verdict ends no delivery and says nothing about the endpoint.
        let (disable, health_sample, contract) = (None, None, None);
        self.store.record_result(DeliveryResult {
            leased,
            attempts,
            verdict,
            disable,
            health_sample,
            ended_at: now,
            contract,
        });
    }
}
