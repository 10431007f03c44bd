//! An engine double that only records the store's calls, and permits that are only counted. Both can block, which
//! holds the store's writer at a known point.

use posthaste::{
    domain::{
        endpoint::Disabled,
        id::EndpointId,
        live_update::{LiveUpdate, UpdateSink},
        ports::{CommitListener, LeasedDelivery, Permit, PermitSource},
        time::Timestamp,
    },
    store::{CommitObservers, CommitWatch},
};
use std::{
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

/// Longer than any step here takes; only a bug exceeds it.
const GATE_TIMEOUT: Duration = Duration::from_secs(20);

/// A point at which the store's thread waits while the gate is shut.
#[derive(Default)]
pub(crate) struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    is_shut: bool,
    waiting: usize,
}

impl Gate {
    pub(crate) fn shut(&self) {
        self.state.lock().unwrap().is_shut = true;
    }

    pub(crate) fn open(&self) {
        self.state.lock().unwrap().is_shut = false;
        self.changed.notify_all();
    }

    /// Returns once the store's thread waits here.
    pub(crate) fn wait_for_the_store(&self) {
        let state = self.state.lock().unwrap();
        let (_state, timeout) =
            self.changed.wait_timeout_while(state, GATE_TIMEOUT, |state| state.waiting == 0).unwrap();
        assert!(!timeout.timed_out(), "the store never came to the gate");
    }

    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.waiting += 1;
        self.changed.notify_all();
        let (mut state, timeout) =
            self.changed.wait_timeout_while(state, GATE_TIMEOUT, |state| state.is_shut).unwrap();
        state.waiting -= 1;
        assert!(!timeout.timed_out(), "the gate was never opened");
    }
}

/// The recorded calls of the store, in order.
#[derive(Default)]
pub(crate) struct RecordingListener {
    leased: Mutex<Vec<LeasedDelivery>>,
    waiting: Mutex<Vec<(EndpointId, Timestamp)>>,
    disabled: Mutex<Vec<(EndpointId, Disabled, u32)>>,
    inspections_wait: AtomicUsize,
    notices_wait: AtomicUsize,
    replays_wait: AtomicUsize,
    configuration_waits: AtomicUsize,
    /// Whether every queue is owned by another node.
    pub(crate) owns_no_queue: AtomicBool,
    live_updates: Mutex<Vec<LiveUpdate>>,
    pub(crate) gate: Gate,
}

impl RecordingListener {
    pub(crate) fn observers(self: &Arc<Self>) -> CommitObservers {
        CommitObservers { engine: self.clone(), live_updates: self.clone(), watch: self.clone() }
    }
    pub(crate) fn take_live_updates(&self) -> Vec<LiveUpdate> {
        std::mem::take(&mut self.live_updates.lock().unwrap())
    }

    pub(crate) fn take_leased(&self) -> Vec<LeasedDelivery> {
        std::mem::take(&mut self.leased.lock().unwrap())
    }

    pub(crate) fn take_waiting(&self) -> Vec<(EndpointId, Timestamp)> {
        std::mem::take(&mut self.waiting.lock().unwrap())
    }

    /// Returns the number of `inspections_wait` calls since the last time.
    pub(crate) fn take_inspections_wait(&self) -> usize {
        self.inspections_wait.swap(0, Ordering::SeqCst)
    }

    /// Returns the number of `notices_wait` calls since the last time.
    pub(crate) fn take_notices_wait(&self) -> usize {
        self.notices_wait.swap(0, Ordering::SeqCst)
    }

    pub(crate) fn take_replays_wait(&self) -> usize {
        self.replays_wait.swap(0, Ordering::SeqCst)
    }

    pub(crate) fn take_configuration_waits(&self) -> usize {
        self.configuration_waits.swap(0, Ordering::SeqCst)
    }

    pub(crate) fn take_disabled(&self) -> Vec<(EndpointId, Disabled, u32)> {
        std::mem::take(&mut self.disabled.lock().unwrap())
    }
}

impl CommitListener for RecordingListener {
    fn deliveries_leased(&self, leased: Vec<LeasedDelivery>) {
        self.leased.lock().unwrap().extend(leased);
        self.gate.pass();
    }

    fn delivery_waiting(&self, endpoint: EndpointId, due: Timestamp) {
        self.waiting.lock().unwrap().push((endpoint, due));
        self.gate.pass();
    }

    fn endpoint_disabled(&self, endpoint: EndpointId, off: Disabled, revision: u32) {
        self.disabled.lock().unwrap().push((endpoint, off, revision));
    }

    fn inspection_waiting(&self) {
        self.inspections_wait.fetch_add(1, Ordering::SeqCst);
    }

    fn notice_waiting(&self) {
        self.notices_wait.fetch_add(1, Ordering::SeqCst);
    }

    fn replay_waiting(&self) {
        self.replays_wait.fetch_add(1, Ordering::SeqCst);
    }

    fn configuration_changed(&self) {
        self.configuration_waits.fetch_add(1, Ordering::SeqCst);
    }

    fn is_queue_remote(&self, _: EndpointId) -> bool {
        self.owns_no_queue.load(Ordering::SeqCst)
    }
}

impl UpdateSink for RecordingListener {
    fn has_subscribers(&self) -> bool {
        true
    }

    fn publish(&self, update: LiveUpdate) {
        self.live_updates.lock().unwrap().push(update);
    }
}

impl CommitWatch for RecordingListener {
    fn started(&self) -> u64 {
        0
    }

    fn committed(&self, _: u64, _: usize) {}
}

/// A counter of permits that are taken and not returned.
#[derive(Default)]
pub(crate) struct PermitCounter {
    out: AtomicUsize,
    pub(crate) gate: Gate,
}

impl PermitCounter {
    pub(crate) fn take(self: &Arc<Self>) -> Permit {
        self.out.fetch_add(1, Ordering::SeqCst);
        Permit::new(self.clone(), 0)
    }

    /// Takes a permit that is valid only under this epoch.
    pub(crate) fn take_for_epoch(self: &Arc<Self>, epoch: i64) -> Permit {
        self.out.fetch_add(1, Ordering::SeqCst);
        Permit::for_epoch(epoch, self.clone(), 0)
    }

    pub(crate) fn taken(&self) -> usize {
        self.out.load(Ordering::SeqCst)
    }
}

impl PermitSource for PermitCounter {
    fn release(&self, _bytes: usize) {
        self.gate.pass();
        self.out.fetch_sub(1, Ordering::SeqCst);
    }

    fn add_bytes(&self, _: usize) {}
}
