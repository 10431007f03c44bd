//! Runs one seed from its plan to the verdict: triggers events at their times, starts processes again, waits until all is
//! quiet, and passes the evidence to the checker.

use crate::{
    actors, bulk_replays, checker,
    event_log::{EventLog, ProcessEnd, Promise, Violation},
    order,
    plan::{ActionPlan, AvailabilityPlan, DAY, HOUR, Plan, PlannedFault, Trigger},
    process::Process,
    sabotage::Sabotage,
    simulation_env::SimulationEnv,
};
use rusqlite::Connection;
use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};
use tokio::task::JoinSet;

/// Longer than any schedule of the plans.
const QUIET_WITHIN: i64 = 40 * DAY;

/// Result of a seed.
pub(crate) struct SeedResult {
    pub(crate) violations: Vec<Violation>,
    pub(crate) figures: checker::Figures,
    pub(crate) trace: u64,
}

#[derive(Clone, Copy)]
enum AgendaItem {
    Publish(usize),
    Action(ActionPlan),
    ChangeAvailability(AvailabilityPlan),
    /// The plan's bulk replay of this number.
    SendAgain(usize),
    Kill(i64),
    Stop(i64),
    DiskFails(PlannedFault),
    DiskHeals,
    Start,
    Heal,
}

pub(crate) fn run(seed: u64, sabotage: Sabotage) -> SeedResult {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let env = SimulationEnv::new(Plan::of(seed), sabotage);
        let (disk, in_hand) = Director::new(env.clone()).direct().await;
        let mut event_log = std::mem::take(&mut *env.event_log());
        if in_hand > 0 {
            event_log.complain(Promise::Consistency, format!("{in_hand} permits never came back"));
        }
        if order::groups_without_head(&disk) > 0 {
            event_log.complain(Promise::Order, "lines without a first at the end");
        }
        bulk_replays::add_to_log(&mut event_log, &disk);
        let (mut violations, figures) = checker::check(&env.plan, &event_log, &disk);
        let trace = trace(&event_log, &disk);
        violations.append(&mut event_log.violations);
        SeedResult { violations, figures, trace }
    })
}

/// Hashes a story: the same story gives the same number.
fn trace(event_log: &EventLog, disk: &Connection) -> u64 {
    let mut hasher = DefaultHasher::new();
    format!("{:?}", event_log.posts).hash(&mut hasher);
    format!("{:?} {:?}", event_log.lives, event_log.answers).hash(&mut hasher);
    format!("{:?} {:?}", event_log.asks, event_log.availability_changes).hash(&mut hasher);
    let mut rows =
        disk.prepare("SELECT delivery, position, started_at, class FROM attempts ORDER BY 1, 2").unwrap();
    let mut rows = rows.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        (0..4).for_each(|column| row.get::<_, i64>(column).unwrap().hash(&mut hasher));
    }
    hasher.finish()
}

struct Director {
    env: Arc<SimulationEnv>,
    agenda: BTreeMap<(i64, usize), AgendaItem>,
    planned: usize,
    actors: JoinSet<()>,
}

impl Director {
    fn new(env: Arc<SimulationEnv>) -> Self {
        Self { env, agenda: BTreeMap::new(), planned: 0, actors: JoinSet::new() }
    }

    fn plan(&mut self, at: i64, deed: AgendaItem) {
        self.planned += 1;
        self.agenda.insert((at, self.planned), deed);
    }

    /// Runs the plan to its end. Returns the disk, and how many permits never came back.
    async fn direct(mut self) -> (Connection, usize) {
        Process::start(&self.env);
        actors::create_app_and_endpoints(&self.env).await;
        self.fill_agenda();
        self.env.state().is_dangerous = true;
        while let Some((&(at, _), _)) = self.agenda.first_key_value() {
            let wait = Duration::from_millis((at - self.env.elapsed()).max(0) as u64);
            tokio::select! {
                biased;
                () = self.env.process_ended.notified() => self.plan_start(),
                () = tokio::time::sleep(wait) => {
                    let Some((_, deed)) = self.agenda.pop_first() else { break };
                    self.act(deed);
                }
            }
        }
        self.rest().await;
        self.close().await
    }

    fn fill_agenda(&mut self) {
        let env = self.env.clone();
        let plan = &env.plan;
        for (number, event) in plan.events.iter().enumerate() {
            self.plan(event.at, AgendaItem::Publish(number));
        }
        plan.wishes.iter().for_each(|wish| self.plan(wish.at, AgendaItem::Action(*wish)));
        plan.availability_changes.iter().for_each(|availability| {
            self.plan(availability.at, AgendaItem::ChangeAvailability(*availability));
        });
        for (number, bulk) in plan.bulks.iter().enumerate() {
            self.plan(bulk.at, AgendaItem::SendAgain(number));
        }
        for fault in &plan.faults {
            match *fault {
                PlannedFault::Kill { trigger: Trigger::At(at), down } => {
                    self.plan(at, AgendaItem::Kill(down));
                }
                PlannedFault::Kill { .. } => {}
                PlannedFault::Stop { at, down } => self.plan(at, AgendaItem::Stop(down)),
                PlannedFault::Disk { at, until, .. } => {
                    self.plan(at, AgendaItem::DiskFails(*fault));
                    self.plan(until, AgendaItem::DiskHeals);
                }
            }
        }
        self.plan(plan.heal_at, AgendaItem::Heal);
    }

    fn plan_start(&mut self) {
        let down = self.env.state().down;
        self.plan(self.env.elapsed() + down, AgendaItem::Start);
    }

    fn act(&mut self, deed: AgendaItem) {
        let env = self.env.clone();
        let process = env.state().process.clone();
        match deed {
            AgendaItem::Publish(number) => drop(self.actors.spawn(actors::publish(env, number))),
            AgendaItem::Action(plan) => drop(self.actors.spawn(actors::act(env, plan))),
            AgendaItem::ChangeAvailability(plan) => {
                drop(self.actors.spawn(actors::set_availability(env, plan)));
            }
            AgendaItem::SendAgain(number) => {
                let plan = env.plan.bulks[number].clone();
                drop(self.actors.spawn(bulk_replays::send_again(env, plan)));
            }
            AgendaItem::Kill(down) => {
                if let Some(process) = process {
                    env.end(process.number, ProcessEnd::Killed, down);
                }
            }
            AgendaItem::Stop(down) => {
                // A process that is still starting is killed by a signal.
                match (process, env.access()) {
                    (Some(process), Some(_)) => drop(tokio::spawn(process.stop(env, down))),
                    (Some(process), None) => env.end(process.number, ProcessEnd::Killed, down),
                    _ => {}
                }
            }
            AgendaItem::DiskFails(PlannedFault::Disk { until, trouble, .. }) => {
                env.disk_fails(trouble, SimulationEnv::instant(until));
            }
            AgendaItem::DiskFails(_) => {}
            AgendaItem::DiskHeals => env.disk_heals(),
            AgendaItem::Start => {
                if process.is_none() {
                    Process::start(&env);
                }
            }
            AgendaItem::Heal => {
                env.disk_heals();
                env.state().is_dangerous = false;
            }
        }
    }

    /// Runs until no request is open and nothing waits or is in flight.
    async fn rest(&mut self) {
        let until = self.env.elapsed() + QUIET_WITHIN;
        while self.env.elapsed() < until {
            tokio::time::sleep(Duration::from_millis(6 * HOUR as u64)).await;
            while self.actors.try_join_next().is_some() {}
            let process = self.env.state().process.clone();
            let Some(process) = process else {
                // A process that was still stopping when all healed.
                Process::start(&self.env);
                continue;
            };
            let waiting = "SELECT (SELECT count(*) FROM deliveries WHERE queue IS NOT NULL AND due IS NOT 253402300799000) + (SELECT count(*) FROM replays WHERE state = 0)";
            let count =
                process.with_disk(|disk| disk.query_row(waiting, [], |row| row.get::<_, i64>(0)).unwrap());
            let in_hand = self.env.access().map_or(1, |access| access.queues.permits_out());
            if self.actors.is_empty() && in_hand == 0 && count == Some(0) {
                return;
            }
        }
        self.env.complain(Promise::Stuck, "not everything came to rest");
    }

    async fn close(mut self) -> (Connection, usize) {
        let env = &self.env;
        if let Some(keeps) = env.plan.retention {
            // Long enough for everything that is kept for a time to end, and then to go.
            let longest = keeps.events.max(keeps.payloads).max(keeps.dead_letters.unwrap_or(0));
            let time = 2 * (longest + keeps.attempts) + 3 * DAY;
            tokio::time::sleep(Duration::from_millis(time as u64)).await;
        }
        let access = env.access();
        let process = env.state().process.clone();
        if let (Some(access), Some(process)) = (&access, &process) {
            let differing = process.with_disk(|disk| access.differs_from(disk)).unwrap_or_default();
            for what in differing {
                env.complain(Promise::Consistency, what);
            }
        }
        if let Some(process) = process {
            process.stop(env.clone(), 0).await;
        }
        self.actors.abort_all();
        let in_hand = access.map_or(0, |access| access.queues.permits_out());
        let disk = env.state().disk.take().expect("the disk is there when no process is");
        (disk, in_hand)
    }
}
