//! Everything that outlives a process where there are several: the time, the store and the connections to it, and what was
//! seen.

use super::{db_triggers, plan::NodesPlan, sabotage::NodeSabotage};
use crate::{
    event_log::{Promise, Violation},
    plan::SECOND,
};
use fastrand::Rng;
use posthaste::{
    domain::{
        id::{DeliveryId, EndpointId, EventId},
        time::Timestamp,
    },
    runtime::NodeLease,
    store::sqlite::{LinkFault, SharedFile},
};
use rusqlite::Connection;
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, OnceLock},
};
use tokio::time::Instant;

const START: i64 = 1_794_700_800_000;

pub(crate) struct NodesEnv {
    pub(crate) plan: NodesPlan,
    pub(crate) sabotage: NodeSabotage,
    file: OnceLock<Arc<SharedFile>>,
    state: Mutex<NodesState>,
    log: Mutex<NodesLog>,
}

/// Times are milliseconds after the start, on no node's own clock.
pub(crate) struct NodesState {
    pub(crate) now: i64,
    /// The node that runs now, and when its turn began by its own timers.
    pub(crate) running: Option<(usize, Instant)>,
    /// Until when each node cannot reach the store, and until when its connection loses messages.
    pub(crate) away: Vec<i64>,
    pub(crate) noisy: Vec<i64>,
    /// Epoch of the last transaction, if that was not stored although its COMMIT was sent.
    was_lost: Option<i64>,
    /// Node states of the processes that there are.
    pub(crate) node_states: Vec<Option<Arc<NodeLease>>>,
    /// Nodes that die as soon as their turn is over.
    pub(crate) doomed: BTreeSet<usize>,
    /// False before everything has begun and after the heal: no fault happens then.
    pub(crate) is_dangerous: bool,
    pub(crate) rng: Rng,
}

#[derive(Default)]
pub(crate) struct NodesLog {
    /// In the plan's order.
    pub(crate) endpoints: Vec<EndpointId>,
    pub(crate) sends: Vec<SentRequest>,
    /// When each process ended, and how often its node stood still, by its number.
    pub(crate) lives: Vec<ProcessLife>,
    /// When wall clocks were set.
    pub(crate) steps: Vec<i64>,
    pub(crate) losses: Vec<Loss>,
    pub(crate) violations: Vec<Violation>,
}

impl NodesLog {
    /// Whether the store lost batches of this epoch: what is done under it is unknown to all.
    pub(crate) fn has_lost(&self, epoch: i64) -> bool {
        self.losses.iter().any(|loss| loss.forgotten.contains(&epoch))
    }

    pub(crate) fn is_lost(&self, event: EventId) -> bool {
        self.losses.iter().any(|loss| loss.events.contains(&event))
    }
}

/// The store went back to how it had been.
#[derive(Debug)]
pub(crate) struct Loss {
    pub(crate) at: i64,
    /// Events that were stored, and are no more.
    pub(crate) events: BTreeSet<EventId>,
    /// Deliveries that are delivered in the store after the loss.
    pub(crate) delivered: BTreeSet<DeliveryId>,
    /// Epochs of which not every batch is there any more.
    pub(crate) forgotten: BTreeSet<i64>,
    /// Epochs that had been fenced until then.
    pub(crate) fenced: BTreeSet<i64>,
}

#[derive(Default)]
pub(crate) struct ProcessLife {
    pub(crate) ended_at: Option<i64>,
    pub(crate) freezes: usize,
}

/// A request, as the network saw it.
#[derive(Clone, Debug)]
pub(crate) struct SentRequest {
    pub(crate) life: usize,
    /// Epoch of its sender.
    pub(crate) epoch: i64,
    pub(crate) queue: EndpointId,
    pub(crate) delivery: DeliveryId,
    /// When the engine sent it; its first byte may have come later.
    pub(crate) called_at: i64,
    /// When the receiver does its work, if it does.
    pub(crate) works_at: Option<i64>,
    pub(crate) ended_at: Option<i64>,
    /// When its sender let go of it or died before that.
    pub(crate) dropped_at: Option<i64>,
    /// How often its sender had stood still when it began.
    pub(crate) freezes: usize,
}

impl NodesEnv {
    pub(crate) fn new(plan: NodesPlan, sabotage: NodeSabotage) -> Arc<Self> {
        let state = NodesState {
            now: 0,
            running: None,
            away: vec![0; plan.nodes],
            noisy: vec![0; plan.nodes],
            was_lost: None,
            node_states: vec![None; plan.nodes],
            doomed: BTreeSet::new(),
            is_dangerous: false,
            rng: Rng::with_seed(plan.seed ^ 0x746f_776e),
        };
        let env = Arc::new(Self {
            plan,
            sabotage,
            file: OnceLock::new(),
            state: Mutex::new(state),
            log: Mutex::default(),
        });
        // The environment owns the file, so the file must not own the environment.
        let (here, there) = (Arc::downgrade(&env), Arc::downgrade(&env));
        let wire = move |tx: &Connection, epoch| {
            here.upgrade().map_or(LinkFault::Cut, |env| env.transaction_fate(tx, epoch))
        };
        let clock = move || there.upgrade().map_or(Timestamp::from_millis(START), |env| at(env.state().now));
        let file = SharedFile::over(Arc::new(wire), Arc::new(clock)).unwrap();
        db_triggers::install(&file.connection());
        let _ = env.file.set(file);
        env
    }

    pub(crate) fn file(&self) -> &Arc<SharedFile> {
        self.file.get().expect("there is a file from the beginning")
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, NodesState> {
        self.state.lock().unwrap()
    }

    pub(crate) fn log(&self) -> MutexGuard<'_, NodesLog> {
        self.log.lock().unwrap()
    }

    pub(crate) fn complain(&self, promise: Promise, what: impl Into<String>) {
        self.log().violations.push(Violation { promise, what: what.into() });
    }

    /// Returns the true time, whatever clocks show.
    pub(crate) fn now(&self) -> i64 {
        let state = self.state();
        let passed = state.running.map_or(0, |(_, since)| since.elapsed().as_millis() as i64);
        state.now + passed
    }

    /// Decides the fate of a transaction of the node that runs now.
    fn transaction_fate(&self, tx: &Connection, epoch: i64) -> LinkFault {
        let mut state = self.state();
        let Some((node, _)) = state.running else { return LinkFault::Answered };
        if state.now < state.away[node] {
            return LinkFault::Cut;
        }
        let is_noisy = state.now < state.noisy[node];
        let passage = match if is_noisy { state.rng.u8(0..8) } else { 7 } {
            0 | 1 => return LinkFault::Cut,
            2 | 3 if epoch != 0 => LinkFault::Unanswered,
            4 if epoch != 0 => LinkFault::Lost,
            _ => LinkFault::Answered,
        };
        if passage != LinkFault::Answered && state.rng.bool() {
            // The connection went with the answer, and there is no other for a while: perhaps for longer than its lease.
            state.away[node] = state.now + [300, 2 * SECOND, 8 * SECOND, 13 * SECOND][state.rng.usize(0..4)];
        }
        let (now, seen) =
            (state.now, state.node_states[node].as_ref().map_or(0, |node_state| node_state.config_version()));
        let was_lost = std::mem::replace(&mut state.was_lost, (passage == LinkFault::Lost).then_some(epoch));
        drop(state);
        if let Some(epoch) = was_lost {
            self.sabotage.after_loss(tx, epoch);
        }
        if epoch != 0 {
            db_triggers::note_who(tx, at(now), epoch, seen);
            self.sabotage.begin(tx, epoch);
        }
        passage
    }

    /// Whether a node that has just committed dies of it, because it was taking over from another.
    pub(crate) fn commit_kills(&self, node: usize) -> bool {
        let is_taking = {
            let sql = "SELECT EXISTS (SELECT 1 FROM nodes WHERE dead = 1)";
            self.file().connection().query_row(sql, [], |row| row.get::<_, bool>(0)).unwrap()
        };
        let mut state = self.state();
        let may_die = is_taking && state.is_dangerous;
        let dies = may_die && state.rng.u8(0..100) < self.plan.takers_die;
        if dies {
            state.doomed.insert(node);
        }
        dies
    }
}

/// Converts to a time on the store's clock.
pub(crate) fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(START + ms)
}
