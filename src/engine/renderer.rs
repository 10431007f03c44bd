//! Makes the payload that an endpoint gets: the data as published, or the version that the endpoint is pinned to, made by
//! the event type's function and cached with the other results made from the event.
//!
//! Functions run on threads of their own, a few at once. A run that takes long moves to the slow slots, one of each app;
//! while its function is in doubt, the app's runs of it use a slot apart, so that no app keeps another waiting.

#[cfg(test)]
mod tests;

use super::{
    body_cache::BodyCache,
    function_fairness::{AppFairness, AppSlowRuns, ExpectedDuration, FunctionName, SlowRunQueue},
    function_run::{FunctionRun, RunResult, SlotGuard},
    function_slots::FunctionSlots,
    render_error::RenderError,
};
use crate::{
    domain::{
        body,
        contract::RenderingRule,
        endpoint::Endpoint,
        event::{Event, Payload, TEST_EVENT_TYPE},
    },
    functions::{PayloadVersion, PinnedVersion},
    runtime::ConfigCache,
};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, timeout};

/// How long a delivery waits for its turn and a slot before it goes back to the store and makes room for others.
const SLOT_WAIT_MAX: Duration = Duration::from_secs(1);
/// A function takes a fraction of a millisecond; a run that takes this long moves to the slow slots.
const QUICK_RUN_MAX: Duration = Duration::from_millis(100);
const QUICK_SLOTS: usize = 3;
const DOUBTFUL_SLOTS: usize = 1;
const SLOW_SLOTS: usize = 2;

pub struct Renderer {
    quick_slots: FunctionSlots,
    doubtful_slots: FunctionSlots,
    slow_slots: FunctionSlots,
    fairness: AppFairness,
}

impl Default for Renderer {
    fn default() -> Self {
        Self {
            quick_slots: FunctionSlots::new(QUICK_SLOTS),
            doubtful_slots: FunctionSlots::new(DOUBTFUL_SLOTS),
            slow_slots: FunctionSlots::new(SLOW_SLOTS),
            fairness: AppFairness::default(),
        }
    }
}

impl Renderer {
    /// Returns the payload for an endpoint. Without a pinned version it costs a check of the contract, and a lookup if the
    /// contract names the version.
    pub(super) async fn payload(
        &self,
        config_cache: &ConfigCache,
        (event, bodies): (&Event, &BodyCache),
        endpoint: &Endpoint,
    ) -> Result<Payload, RenderError> {
        let Some(pinned) = &endpoint.record.settings.payload_version else {
            let is_named = body::contains_payload_version(&endpoint.contract);
            let newest = || config_cache.catalogue().newest(&event.event_type).cloned();
            return Ok(Payload { converted: None, version: is_named.then(newest).flatten() });
        };
        let as_published = |version: Arc<str>| Payload { converted: None, version: Some(version) };
        // Erased data has no version; its body says so.
        if event.event_type == TEST_EVENT_TYPE || event.data.is_empty() {
            return Ok(as_published(pinned.as_str().into()));
        }
        let version = match config_cache.catalogue().pinned(&event.event_type, pinned)? {
            PinnedVersion::AsPublished(version) => return Ok(as_published(version)),
            PinnedVersion::Converted(version) => version,
        };
        let ended = match cached_result(bodies, &version) {
            Some(ended) => ended,
            None => self.convert((event, bodies), &version, endpoint.contract.rendering).await?,
        };
        match ended {
            RunResult::Converted(data) => {
                Ok(Payload { converted: Some(data), version: Some(version.name.clone()) })
            }
            RunResult::Failed(why) | RunResult::OutOfTime(why) => {
                let about = format!("payload version {pinned} of {}: {why}", event.event_type);
                Err(RenderError::no_payload(about))
            }
        }
    }

    async fn convert(
        &self,
        (event, bodies): (&Event, &BodyCache),
        version: &Arc<PayloadVersion>,
        rule: RenderingRule,
    ) -> Result<RunResult, RenderError> {
        let function: FunctionName = (event.event_type.clone(), version.name.clone());
        let until = Instant::now() + SLOT_WAIT_MAX;
        let known =
            self.fairness.of(event.app).map(|slow_runs| (slow_runs.expected(&function, event.id), slow_runs));
        let (slots, hold) = match &known {
            None | Some((ExpectedDuration::Quick, _)) => {
                let slot = self.quick_slots.take(until).await;
                (&self.quick_slots, slot.map(SlotGuard::of))
            }
            Some((ExpectedDuration::Doubtful, slow_runs)) => (
                &self.doubtful_slots,
                take_slot_in_turn(slow_runs, &slow_runs.doubtful, &self.doubtful_slots, until).await,
            ),
            Some((ExpectedDuration::Slow, slow_runs)) => (
                &self.slow_slots,
                take_slot_in_turn(slow_runs, &slow_runs.slow, &self.slow_slots, until).await,
            ),
        };
        let hold = hold.ok_or_else(|| busy_error(&function, slots))?;
        // Another delivery may have made it for the same event meanwhile.
        if let Some(ended) = cached_result(bodies, version) {
            return Ok(ended);
        }
        let work = (version.clone(), event.data.clone(), rule);
        let trial = FunctionRun::begin(function.clone(), event.id, work, hold)?;
        let ended = match known {
            Some((ExpectedDuration::Slow, slow_runs)) => trial.finish_slow(&slow_runs).await,
            _ => self.finish(trial, event, function).await?,
        };
        match &ended {
            RunResult::Converted(data) => bodies.cache_converted(version.clone(), Ok(data.clone())),
            RunResult::Failed(why) => bodies.cache_converted(version.clone(), Err(why.clone())),
            // The next endpoint's contract may allow more time.
            RunResult::OutOfTime(_) => {}
        }
        Ok(ended)
    }

    /// Waits for a run that should be quick; if it is not, it moves to the slow slots.
    async fn finish(
        &self,
        mut trial: FunctionRun,
        event: &Event,
        function: FunctionName,
    ) -> Result<RunResult, RenderError> {
        if let Ok(ended) = timeout(QUICK_RUN_MAX, trial.finish()).await {
            return Ok(ended);
        }
        let slow_runs = self.fairness.note_slow(event.app, function.clone(), event.id);
        let free = slow_runs.slow.take_free().zip(self.slow_slots.take_free());
        let Some((permit, slot)) = free else {
            // The run is stopped here; when its delivery comes back, it waits in line with the others.
            trial.give_up(slow_runs);
            return Err(busy_error(&function, &self.slow_slots));
        };
        trial.move_to_slot(SlotGuard::slow(slot, slow_runs.clone(), permit));
        Ok(trial.finish_slow(&slow_runs).await)
    }
}

/// Waits for the app's turn and then for a slot: only one run of each app waits for a slot, so that all apps get theirs in
/// turn.
async fn take_slot_in_turn(
    slow_runs: &Arc<AppSlowRuns>,
    queue: &SlowRunQueue,
    slots: &FunctionSlots,
    until: Instant,
) -> Option<SlotGuard> {
    let permit = queue.take(until).await?;
    let slot = slots.take(until).await?;
    Some(SlotGuard::slow(slot, slow_runs.clone(), permit))
}

fn cached_result(bodies: &BodyCache, version: &Arc<PayloadVersion>) -> Option<RunResult> {
    bodies.converted(version).map(|converted| converted.map_or_else(RunResult::Failed, RunResult::Converted))
}

fn busy_error((event_type, version): &FunctionName, slots: &FunctionSlots) -> RenderError {
    if slots.are_all_lost() {
        tracing::error!(%event_type, %version, "no slot for a payload function: the functions in all of them do not stop");
        return RenderError::temporary(format!(
            "payload version {version} of {event_type} has no place to be made in: the functions in all of them do not stop"
        ));
    }
    RenderError::temporary(format!(
        "payload version {version} of {event_type} is being made for another event"
    ))
}
