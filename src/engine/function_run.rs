//! A conversion on a thread of its own: tried as often as the contract says, each time within its time limit.

use super::{
    function_fairness::{AppSlowRuns, FunctionName},
    function_slots::FunctionSlot,
    render_error::RenderError,
};
use crate::{
    domain::{contract::RenderingRule, id::EventId, time::format_duration},
    functions::PayloadVersion,
    runtime::run_on_own_thread,
};
use bytes::Bytes;
use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    sync::{OwnedSemaphorePermit, oneshot},
    time::{Instant, timeout},
};

/// How long a run is waited for beyond its time limits. The interpreter asks whether to go on every few thousand steps, but
/// some of JavaScript's own functions are one step, whatever they do.
const STUCK_RUN_AFTER: Duration = Duration::from_secs(2);
/// How long a function is in doubt whose thread does not end.
const STUCK_DOUBT: Duration = Duration::from_hours(1);

/// Result of a run.
#[derive(Clone, Debug)]
pub(super) enum RunResult {
    Converted(Bytes),
    /// Would fail in the same way again.
    Failed(Arc<str>),
    /// Had less time than it needs, which depends on the contract.
    OutOfTime(Arc<str>),
}

/// Slot and turn that a run holds until its thread ends.
pub(super) struct SlotGuard {
    slot: FunctionSlot,
    /// Turn of its app, where it needs one.
    _turn: Option<(Arc<AppSlowRuns>, OwnedSemaphorePermit)>,
}

impl SlotGuard {
    pub(super) fn of(slot: FunctionSlot) -> Self {
        Self { slot, _turn: None }
    }

    pub(super) fn slow(
        slot: FunctionSlot,
        slow_runs: Arc<AppSlowRuns>,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        Self { slot, _turn: Some((slow_runs, permit)) }
    }
}

type SharedSlotGuard = Arc<Mutex<Option<SlotGuard>>>;

/// A run that is under way. Dropping it asks the run to stop.
pub(super) struct FunctionRun {
    result: oneshot::Receiver<RunResult>,
    slot_guard: SharedSlotGuard,
    is_given_up: Arc<AtomicBool>,
    within: Duration,
    function: FunctionName,
    event: EventId,
}

impl FunctionRun {
    pub(super) fn begin(
        function: FunctionName,
        event: EventId,
        work: (Arc<PayloadVersion>, Bytes, RenderingRule),
        hold: SlotGuard,
    ) -> Result<Self, RenderError> {
        let (version, data, rule) = work;
        let is_given_up = Arc::new(AtomicBool::new(false));
        let stop = is_given_up.clone();
        let hold = Arc::new(Mutex::new(Some(hold)));
        let result = run_on_own_thread(SlotReleaser(hold.clone()), move || {
            convert_with_retries(&version, &data, rule, &stop)
        })
        .map_err(|error| RenderError::temporary(format!("no thread for a payload function: {error}")))?;
        let within = rule.timeout.saturating_mul(rule.tries) + STUCK_RUN_AFTER;
        Ok(Self { result, slot_guard: hold, is_given_up, within, function, event })
    }

    /// Waits for the result. It may be called again after its future was dropped.
    pub(super) async fn finish(&mut self) -> RunResult {
        let result = (&mut self.result).await;
        result.unwrap_or_else(|_| RunResult::Failed("could not be made: its thread came to grief".into()))
    }

    /// Moves the run to another slot and releases the one it had.
    pub(super) fn move_to_slot(&self, hold: SlotGuard) {
        let before = lock_slot(&self.slot_guard).replace(hold);
        drop(before);
    }

    /// Waits for a run that may take as long as its contract says; its slot is lost if it takes longer.
    pub(super) async fn finish_slow(mut self, slow_runs: &AppSlowRuns) -> RunResult {
        if let Ok(ended) = timeout(self.within, self.finish()).await {
            return ended;
        }
        self.lose_slot(slow_runs);
        RunResult::OutOfTime("did not stop when its time was over".into())
    }

    /// Asks the run to stop and returns at once. If it does not stop, its slot is lost.
    pub(super) fn give_up(mut self, slow_runs: Arc<AppSlowRuns>) {
        self.is_given_up.store(true, Relaxed);
        tokio::spawn(async move {
            if timeout(STUCK_RUN_AFTER, self.finish()).await.is_err() {
                self.lose_slot(&slow_runs);
            }
        });
    }

    fn lose_slot(&self, slow_runs: &AppSlowRuns) {
        let (event_type, version) = &self.function;
        tracing::error!(
            %event_type, %version, event = %self.event,
            "a payload function does not stop; its thread and its slot are lost until it does"
        );
        slow_runs.note(self.function.clone(), self.event, Instant::now() + STUCK_DOUBT);
        if let Some(hold) = &mut *lock_slot(&self.slot_guard) {
            hold.slot.lose();
        }
    }
}

impl Drop for FunctionRun {
    fn drop(&mut self) {
        self.is_given_up.store(true, Relaxed);
    }
}

/// Releases what a run holds when its thread ends.
struct SlotReleaser(SharedSlotGuard);

impl Drop for SlotReleaser {
    fn drop(&mut self) {
        let held = lock_slot(&self.0).take();
        drop(held);
    }
}

fn lock_slot(hold: &SharedSlotGuard) -> MutexGuard<'_, Option<SlotGuard>> {
    hold.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the function as often as the rule allows. Only time can make another try end otherwise: a function sees neither a
/// clock nor randomness.
fn convert_with_retries(
    version: &PayloadVersion,
    data: &[u8],
    rule: RenderingRule,
    is_given_up: &Arc<AtomicBool>,
) -> RunResult {
    for _ in 0..rule.tries {
        let (until, stop) = (Instant::now() + rule.timeout, is_given_up.clone());
        match version.convert(data, move || Instant::now() < until && !stop.load(Relaxed)) {
            Ok(made) => return RunResult::Converted(made.into()),
            Err(failed) if !failed.is_out_of_time() => return RunResult::Failed(failed.to_string().into()),
            Err(_) if is_given_up.load(Relaxed) => break,
            Err(_) => {}
        }
    }
    let times = if rule.tries == 1 { "once" } else { &format!("{} times", rule.tries) };
    let message = format!("did not finish within {}, tried {times}", format_duration(rule.timeout));
    RunResult::OutOfTime(message.into())
}
