//! Everything that outlives a process: the clock, the disk, the network, the plan and the journal. And how a process ends.

use crate::{
    event_log::{EventLog, ProcessEnd, ProcessFact, Promise, TroubleFact},
    plan::{DiskTrouble, Plan, PlannedFault, Trigger},
    process::{Process, ServiceAccess},
    sabotage::Sabotage,
};
use fastrand::Rng;
use posthaste::{
    domain::time::Timestamp,
    runtime::{Clock, SeededEntropy, VirtualClock},
};
use rusqlite::Connection;
use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::sync::Notify;

const START: Timestamp = Timestamp::from_millis(1_794_700_800_000);

pub(crate) struct SimulationEnv {
    pub(crate) plan: Plan,
    pub(crate) sabotage: Sabotage,
    pub(crate) clock: Arc<VirtualClock>,
    pub(crate) entropy: Arc<SeededEntropy>,
    /// Notified when a process ended.
    pub(crate) process_ended: Notify,
    /// Notified when a service can be called.
    pub(crate) opened: Notify,
    event_log: Mutex<EventLog>,
    network_rng: Mutex<Rng>,
    commit_rng: Mutex<Rng>,
    state: Mutex<SimulationState>,
}

pub(crate) struct SimulationState {
    /// The store's file, while no process has it open.
    pub(crate) disk: Option<Connection>,
    pub(crate) process: Option<Arc<Process>>,
    /// Where callers reach the service.
    pub(crate) access: Option<Arc<ServiceAccess>>,
    pub(crate) trouble: Option<DiskTrouble>,
    /// How long after the end of a process the next one starts.
    pub(crate) down: i64,
    kills: Vec<(Trigger, i64)>,
    commits: u32,
    /// False before the app and endpoints exist, and after healing: no fault is triggered then.
    pub(crate) is_dangerous: bool,
}

impl SimulationEnv {
    /// Must be called inside a paused runtime.
    pub(crate) fn new(plan: Plan, sabotage: Sabotage) -> Arc<Self> {
        let kills = plan.faults.iter().filter_map(|fault| match fault {
            PlannedFault::Kill { trigger, down } => Some((*trigger, *down)),
            _ => None,
        });
        let state = SimulationState {
            disk: None,
            process: None,
            access: None,
            trouble: None,
            down: 0,
            kills: kills.collect(),
            commits: 0,
            is_dangerous: false,
        };
        Arc::new(Self {
            clock: Arc::new(VirtualClock::starting_at(START)),
            entropy: Arc::new(SeededEntropy::new(plan.seed)),
            process_ended: Notify::new(),
            opened: Notify::new(),
            event_log: Mutex::default(),
            network_rng: Mutex::new(Rng::with_seed(plan.seed ^ 0x6e65_7477)),
            commit_rng: Mutex::new(Rng::with_seed(plan.seed ^ 0x636f_6d6d)),
            state: Mutex::new(state),
            plan,
            sabotage,
        })
    }

    pub(crate) fn event_log(&self) -> MutexGuard<'_, EventLog> {
        self.event_log.lock().unwrap()
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, SimulationState> {
        self.state.lock().unwrap()
    }

    pub(crate) fn network_rng(&self) -> MutexGuard<'_, Rng> {
        self.network_rng.lock().unwrap()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Milliseconds after the start, as the plan counts.
    pub(crate) fn elapsed(&self) -> i64 {
        self.now().as_millis() - START.as_millis()
    }

    pub(crate) fn instant(after_start: i64) -> Timestamp {
        START.plus(Duration::from_millis(after_start.max(0) as u64))
    }

    pub(crate) fn commit_delay(&self) -> Duration {
        let mut rng = self.commit_rng.lock().unwrap();
        Duration::from_millis(if rng.bool() { 0 } else { rng.u64(0..20) })
    }

    pub(crate) fn access(&self) -> Option<Arc<ServiceAccess>> {
        self.state().access.clone()
    }

    pub(crate) fn is_dead(&self, life: u32) -> bool {
        self.state().process.as_ref().is_none_or(|process| process.number != life)
    }

    /// Notes a new process. Returns its number.
    pub(crate) fn add_process(&self) -> u32 {
        let mut event_log = self.event_log();
        event_log.lives.push(ProcessFact { ready_at: None, leaving_at: None, ended_at: None, ending: None });
        event_log.lives.len() as u32 - 1
    }

    /// Ends the process at once; the file stays as its last commit left it, and nothing in memory gets anywhere.
    pub(crate) fn end(&self, life: u32, ending: ProcessEnd, down: i64) {
        let mut state = self.state();
        if state.process.as_ref().is_none_or(|process| process.number != life) {
            return;
        }
        let (Some(process), access) = (state.process.take(), state.access.take()) else { return };
        state.down = down;
        drop(state);
        let disk = self.sabotage.at_end(process.take_disk(), ending);
        self.state().disk = disk;
        process.abort();
        let now = self.now();
        let mut event_log = self.event_log();
        let fact = &mut event_log.lives[life as usize];
        fact.leaving_at.get_or_insert(now);
        fact.ended_at = Some(now);
        fact.ending = Some(ending);
        drop(event_log);
        drop(access);
        self.process_ended.notify_one();
    }

    /// Whether the process dies before or after its n-th commit; ends it if so.
    pub(crate) fn commit_kills(&self, life: u32, is_before: bool) -> bool {
        let mut state = self.state();
        state.commits += u32::from(is_before && state.is_dangerous);
        let commits = state.commits;
        let wanted = if is_before { Trigger::BeforeCommit(commits) } else { Trigger::AfterCommit(commits) };
        let down = state.take_kill(wanted);
        drop(state);
        down.inspect(|down| self.end(life, ProcessEnd::Killed, *down)).is_some()
    }

    /// Notes the start of a request; some kill their process soon after.
    pub(crate) fn post_begun(self: &Arc<Self>, life: u32, number: u32) {
        let mut state = self.state();
        let found = state.kills.iter().find_map(|(trigger, _)| match trigger {
            Trigger::InPost(n, after) if *n == number => Some((*trigger, *after)),
            _ => None,
        });
        let Some((trigger, after)) = found else { return };
        let Some(down) = state.take_kill(trigger) else { return };
        drop(state);
        if after == 0 {
            return self.end(life, ProcessEnd::Killed, down);
        }
        let env = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(after as u64)).await;
            if env.state().is_dangerous {
                env.end(life, ProcessEnd::Killed, down);
            }
        });
    }

    pub(crate) fn disk_fails(&self, trouble: DiskTrouble, until: Timestamp) {
        // A new trouble replaces the old one.
        self.disk_heals();
        let from = self.now();
        self.event_log().troubles.push(TroubleFact { from, until, trouble });
        self.set_trouble(Some(trouble));
    }

    pub(crate) fn disk_heals(&self) {
        let now = self.now();
        let mut event_log = self.event_log();
        for fact in &mut event_log.troubles {
            fact.until = fact.until.min(now);
        }
        drop(event_log);
        self.set_trouble(None);
    }

    fn set_trouble(&self, trouble: Option<DiskTrouble>) {
        let mut state = self.state();
        state.trouble = trouble;
        if let Some(process) = &state.process {
            process.with_disk(|disk| apply_trouble(disk, trouble));
        }
    }

    pub(crate) fn complain(&self, promise: Promise, what: impl Into<String>) {
        self.event_log().complain(promise, what);
    }
}

impl SimulationState {
    fn take_kill(&mut self, wanted: Trigger) -> Option<i64> {
        if !self.is_dangerous {
            return None;
        }
        let index = self.kills.iter().position(|(trigger, _)| *trigger == wanted)?;
        Some(self.kills.swap_remove(index).1)
    }
}

/// Makes writes fail, or work again.
pub(crate) fn apply_trouble(disk: &Connection, trouble: Option<DiskTrouble>) {
    let pages: i64 = disk.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    let most = if trouble == Some(DiskTrouble::Full) { pages } else { 1 << 30 };
    disk.pragma_update_and_check(None, "max_page_count", most, |_| Ok(())).unwrap();
    disk.pragma_update(None, "query_only", trouble == Some(DiskTrouble::ReadOnly)).unwrap();
}
