//! Makes one delivery: renders, signs, sends, decides and records. The endpoint's settings are read anew each time.

use super::{
    admission::{AdmissionTicket, OutgoingDelivery, SendResult},
    body_cache::BodyCache,
    endpoint_queue::EndpointQueue,
    lease_guard::LeaseGuard,
    prepared_request::{PreparedRequest, new_attempt},
    render_error::RenderError,
    renderer::Renderer,
};
use crate::{
    domain::{
        circuit_breaker::{PausedUntil, RequestedPause},
        contract::Contract,
        endpoint::{Disabled, DisabledBy, DisabledReason, Endpoint},
        event::TEST_EVENT_TYPE,
        health::HealthSample,
        outcome::{Outcome, OutcomeClass},
        ports::LeasedDelivery,
        time::Timestamp,
        verdict::{self, RetryContext, Verdict},
    },
    outbound::{HttpSender, OutboundRequest},
    runtime::{Clock, ConfigCache, Entropy, Metrics, OutageDetector},
    store::DeliveryStore,
};
use std::sync::Arc;

/// History notes for an attempt that failed together with most others.
const OUTAGE_NOTE: &str = "most receivers fell silent at once: not held against this one";
const OUTAGE_RETRY_NOTE: &str = "most receivers fell silent at once: waited out, outside the schedule";

/// Why an attempt has no outcome to decide on.
enum NoOutcome {
    NotRendered(RenderError),
    /// Sending was not allowed, or waiting was ended: dropping the lease guard releases or records the delivery.
    Released,
}

impl From<RenderError> for NoOutcome {
    fn from(fault: RenderError) -> Self {
        Self::NotRendered(fault)
    }
}

pub struct DeliveryWorker {
    pub config_cache: Arc<ConfigCache>,
    pub delivery_store: Arc<dyn DeliveryStore>,
    pub http_sender: Arc<dyn HttpSender>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub metrics: Arc<Metrics>,
    pub outage_detector: Arc<OutageDetector>,
    pub renderer: Renderer,
}

impl DeliveryWorker {
    /// Brings one delivery to its verdict, or back to the store if it may not be sent now. Returns how its last request
    /// ended.
    pub(super) async fn process(
        &self,
        sending: OutgoingDelivery,
        queue: &EndpointQueue,
        ticket: &AdmissionTicket,
    ) -> Option<SendResult> {
        let OutgoingDelivery { leased, bodies, note } = sending;
        let mut lease_guard = LeaseGuard::new(leased, note, self.delivery_store.clone(), self.clock.clone());
        // Dropping the guard releases the delivery; the store then cancels or holds it as the endpoint's state demands.
        let leased = lease_guard.leased()?;
        let endpoint = self.config_cache.endpoint(leased.delivery.endpoint)?;
        if endpoint.record.disabled.is_some() && leased.event.event_type != TEST_EVENT_TYPE {
            return None;
        }
        let begun_at = self.clock.now();
        let packed = self.prepare(leased, &bodies, &endpoint).await;
        // No request starts unless its result can be recorded.
        if !self.delivery_store.can_record() {
            return None;
        }
        let delivered = match packed {
            Ok(prepared) => self.send_with_repeat(&mut lease_guard, &prepared, queue, ticket).await,
            Err(fault) => Err(fault.into()),
        };
        let report = self.send_result(&lease_guard, &endpoint, matches!(delivered, Ok(true)));
        match delivered {
            Ok(counts) => self.record_verdict(lease_guard, &endpoint, counts),
            Err(NoOutcome::NotRendered(fault)) => {
                self.record_not_sent(lease_guard, &endpoint, begun_at, fault);
            }
            Err(NoOutcome::Released) => return None,
        }
        report
    }

    /// Returns how the last request ended. A failure that does not count against the endpoint is reported as
    /// `OutcomeClass::Local`.
    fn send_result(&self, lease_guard: &LeaseGuard, endpoint: &Endpoint, counts: bool) -> Option<SendResult> {
        let last = lease_guard.attempts().last()?;
        let class = last.outcome.class;
        let class = if counts || !class.is_numbered() { class } else { OutcomeClass::Local };
        let ended_at = self.clock.now();
        let requested = RequestedPause::from_outcome(&last.outcome, &endpoint.contract, ended_at);
        Some(SendResult { class, started_at: last.started_at, ended_at, requested_pause: requested })
    }

    async fn prepare(
        &self,
        leased: &LeasedDelivery,
        bodies: &BodyCache,
        endpoint: &Arc<Endpoint>,
    ) -> Result<PreparedRequest, RenderError> {
        let Some(entry) = self.config_cache.app_by_id(leased.delivery.app) else {
            return Err(RenderError::no_payload("the app was deleted"));
        };
        let payload = self.renderer.payload(&self.config_cache, (&leased.event, bodies), endpoint).await?;
        PreparedRequest::prepare(leased, bodies, &entry.app(), endpoint.clone(), payload)
    }

    /// Records why no request was made: as an attempt in the history, which takes no number.
    fn record_not_sent(
        &self,
        mut lease_guard: LeaseGuard,
        endpoint: &Endpoint,
        begun_at: Timestamp,
        fault: RenderError,
    ) {
        let now = self.clock.now();
        let mut outcome = Outcome::failed(OutcomeClass::Local, fault.error);
        outcome.timings.total_us = now.since(begun_at).as_micros() as u32;
        self.metrics.count_attempt(OutcomeClass::Local);
        lease_guard.add_attempt(new_attempt(endpoint, begun_at, outcome));
        match fault.dead_reason {
            Some(reason) => {
                let verdict = Verdict::Dead { reason, disable_endpoint: false };
                lease_guard.record(verdict, None, None, now, &endpoint.contract);
            }
            None => self.record_verdict(lease_guard, endpoint, false),
        }
    }

    /// Sends one request, and a second at once if a kept-alive connection turned out to be gone. Returns whether the outcome
    /// says anything about the receiver.
    ///
    /// Under a limit there may be no token for the second request, so a delivery that had this failure before starts over a
    /// fresh connection.
    async fn send_with_repeat(
        &self,
        lease_guard: &mut LeaseGuard,
        prepared: &PreparedRequest,
        queue: &EndpointQueue,
        ticket: &AdmissionTicket,
    ) -> Result<bool, NoOutcome> {
        let had_bad_luck =
            |leased: &LeasedDelivery| leased.delivery.history_len > leased.delivery.attempt_count;
        let starts_fresh = ticket.took_tokens() && lease_guard.leased().is_some_and(had_bad_luck);
        let mut counts = false;
        for fresh in [starts_fresh, true] {
            let Some(leased) = lease_guard.leased() else { return Ok(false) };
            let started_at = self.clock.now();
            let position = leased.delivery.history_len + 1 + lease_guard.attempts().len() as u32;
            let request = prepared.request(leased, position, started_at, fresh)?;
            queue.mark_sent(ticket, started_at);
            lease_guard.mark_sent(started_at);
            let mut outcome = self.send(request, lease_guard, queue, ticket).await?;
            verdict::classify(&mut outcome, &prepared.endpoint.contract);
            self.metrics.count_attempt(outcome.class);
            let Endpoint { record, target, .. } = &*prepared.endpoint;
            counts = self.outage_detector.record(record.app, target.host(), &outcome, self.clock.now());
            let is_stale = outcome.class == OutcomeClass::StaleConnection;
            lease_guard.add_attempt(new_attempt(&prepared.endpoint, started_at, outcome));
            let may_repeat =
                || self.delivery_store.can_record() && queue.may_repeat(ticket, self.clock.now());
            if !is_stale || fresh || !may_repeat() {
                break;
            }
        }
        Ok(counts)
    }

    /// Sends the request. Lets go as soon as this node has lost the delivery, or when another node may send for an exclusive
    /// queue.
    async fn send(
        &self,
        request: OutboundRequest,
        lease_guard: &mut LeaseGuard,
        queue: &EndpointQueue,
        ticket: &AdmissionTicket,
    ) -> Result<Outcome, NoOutcome> {
        let (context, posting) = (&queue.context, self.http_sender.post(request));
        let posted = if context.node_state.is_single_node() {
            posting.await
        } else {
            // Subscribed before the epoch is read: joining again changes the epoch first.
            let (cut, abandoned) = (context.exclusive_cut.notified(), context.abandoned.notified());
            if lease_guard.leased().is_none_or(|leased| leased.epoch != context.node_state.epoch()) {
                lease_guard.mark_not_sent();
                return Err(NoOutcome::Released);
            }
            tokio::select! {
                biased;
                () = cut, if ticket.is_exclusive() => return Err(NoOutcome::Released),
                () = abandoned => return Err(NoOutcome::Released),
                posted = posting => posted,
            }
        };
        posted.map_err(|_| {
            // The delivery waits in the store, and its queue until the gate is open again.
            queue.context.permit_pool.close_send_gate();
            lease_guard.mark_not_sent();
            NoOutcome::Released
        })
    }

    /// Returns the pause that the receiver asked for, unless the endpoint's URL has changed since.
    fn requested_pause(
        &self,
        outcome: &Outcome,
        endpoint: &Endpoint,
        ended_at: Timestamp,
    ) -> Option<PausedUntil> {
        let paused = RequestedPause::from_outcome(outcome, &endpoint.contract, ended_at)?.until(ended_at)?;
        let current = self.config_cache.endpoint(endpoint.id())?;
        (current.record.settings.url == endpoint.record.settings.url).then_some(paused)
    }

    fn record_verdict(&self, mut lease_guard: LeaseGuard, endpoint: &Endpoint, counts: bool) {
        let (Some(leased), Some(last)) = (lease_guard.leased(), lease_guard.attempts().last()) else {
            return;
        };
        let ended_at = self.clock.now();
        let delivery = &leased.delivery;
        let retry_context = RetryContext {
            retry_index: delivery.retry_index,
            give_up_at: delivery.give_up_at,
            unnumbered: delivery.history_len - delivery.attempt_count + lease_guard.attempts().len() as u32
                - 1,
            is_local_outage: !counts && last.outcome.class.is_numbered(),
        };
        let contract: &Contract = &endpoint.contract;
        let verdict =
            verdict::decide(&last.outcome, &retry_context, contract, ended_at, self.entropy.unit_float());
        let event = &leased.event;
        if verdict == Verdict::Delivered {
            let wanted_at = event.deliver_at.map_or(event.accepted_at, |at| at.max(event.accepted_at));
            self.metrics.observe_delivered(ended_at.since(wanted_at).as_millis() as u64);
        }
        // A test says nothing about the endpoint, whatever the answer.
        let is_test = event.event_type == TEST_EVENT_TYPE;
        let is_gone = matches!(verdict, Verdict::Dead { disable_endpoint: true, .. }) && !is_test;
        let off = is_gone.then_some(Disabled {
            reason: DisabledReason::Gone,
            at: ended_at,
            waiting: contract.off.waiting,
            by: Some(DisabledBy::Receiver),
        });
        let health_sample = (counts && !is_test).then(|| HealthSample {
            adjusted_time: self.outage_detector.adjusted_time(ended_at),
            paused: self.requested_pause(&last.outcome, endpoint, ended_at),
        });
        if retry_context.is_local_outage {
            lease_guard.append_note(match verdict {
                Verdict::RetryUncounted { .. } => OUTAGE_RETRY_NOTE,
                _ => OUTAGE_NOTE,
            });
        }
        lease_guard.record(verdict, off, health_sample, ended_at, &endpoint.contract);
    }
}
