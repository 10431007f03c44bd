//! A process: service, engine and store on the disk that the last one left. It can be ended at any step.

use crate::{
    archive, bulk_replays,
    event_log::{ProcessEnd, Promise},
    network::FakeHttpSender,
    node_builder::{EngineParts, NoWatch, NodeBuilder},
    order,
    plan::SECOND,
    simulation_env::{SimulationEnv, apply_trouble},
};
use posthaste::{
    domain::id::EndpointId,
    engine::{EndpointQueues, Engine, EngineLimits, Intervals, QueueEvents},
    runtime::{Clock, ConfigCache, IdGenerator, NodeLease, Shutdown, ShutdownHandle},
    service::Service,
    store::{
        ClusterStore,
        sqlite::{CommitResult, QueueLimits, SqliteCommitLoop, SqliteStore},
    },
};
use rusqlite::Connection;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{sync::Notify, task::AbortHandle};

const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);
const TRIES_WHILE_CLOSING: usize = 10;
/// Far more than any story needs: beyond this there is a busy loop.
const COMMITS_MAX: u32 = 20_000;
/// How often outage-adjusted time is written down: a kill takes so much of it at most.
pub(crate) const HEALTH_EVERY: Duration = Duration::from_hours(3);

pub(crate) struct Process {
    pub(crate) number: u32,
    writer: Mutex<Option<SqliteCommitLoop>>,
    tasks: Mutex<Vec<AbortHandle>>,
    stop: ShutdownHandle,
    engine_ended: Notify,
}

/// Service of a process, for its callers.
pub(crate) struct ServiceAccess {
    pub(crate) life: u32,
    pub(crate) service: Arc<Service>,
    pub(crate) queues: Arc<EndpointQueues>,
    pub(crate) config_cache: Arc<ConfigCache>,
}

impl ServiceAccess {
    /// Returns the endpoints that memory and store see differently.
    pub(crate) fn differs_from(&self, disk: &Connection) -> Vec<String> {
        let mut rows = disk
            .prepare("SELECT id, revision, disabled IS NOT NULL FROM endpoints WHERE deleted_at IS NULL")
            .unwrap();
        let stored = rows
            .query_map([], |row| Ok((row.get(0).map(EndpointId::from_i64)?, (row.get(1)?, row.get(2)?))))
            .unwrap()
            .map(Result::unwrap);
        let mut differing = Vec::new();
        for (id, stored) in stored {
            let known = self
                .config_cache
                .endpoint(id)
                .map(|endpoint| (endpoint.record.revision, endpoint.record.disabled.is_some()));
            if known != Some(stored) {
                differing.push(format!(
                    "{id} has (revision, off) {known:?} in memory and {stored:?} in the store"
                ));
            }
        }
        differing
    }
}

impl Process {
    /// Starts a process on the environment's disk. It can be called when it is ready.
    pub(crate) fn start(env: &Arc<SimulationEnv>) {
        let config_cache = Arc::new(ConfigCache::default());
        let plan = &env.plan;
        let limits = EngineLimits {
            deliveries_in_flight_max: plan.permits,
            bytes_max: 1 << 20,
            in_flight_per_endpoint: 64,
            limits: env.sabotage.ceilings(plan.limits.node),
        };
        let (queues, events) =
            EndpointQueues::new(limits, config_cache.clone(), Arc::new(NodeLease::single_node()));
        let notified = Arc::new(Notify::new());
        let wake = {
            let notified = notified.clone();
            Box::new(move || notified.notify_one())
        };
        let disk = env.state().disk.take();
        let commit_listener = env.sabotage.commit_listener(queues.clone());
        let queue = QueueLimits { events_max: 1000, bytes_max: 1 << 20 };
        let (store, writer) =
            SqliteStore::in_memory(disk, commit_listener, Arc::new(NoWatch), queue, wake).unwrap();
        bulk_replays::watch(writer.connection());
        archive::open(writer.connection());
        order::watch(writer.connection());
        let leaderless = order::groups_without_head(writer.connection());
        if leaderless > 0 {
            env.complain(Promise::Order, format!("{leaderless} lines without a first at a start"));
        }
        apply_trouble(writer.connection(), env.state().trouble);
        let (stop_handle, stop) = Shutdown::new();
        let process = Arc::new(Self {
            number: env.add_process(),
            writer: Mutex::new(Some(writer)),
            tasks: Mutex::default(),
            stop: stop_handle,
            engine_ended: Notify::new(),
        });
        env.state().process = Some(process.clone());
        process.spawn(commit_loop(env.clone(), process.clone(), notified));
        let parts = ProcessStart {
            env: env.clone(),
            process: process.clone(),
            store: Arc::new(store),
            queues,
            config_cache,
            stop,
        };
        process.spawn(parts.run(events));
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.lock().unwrap().push(tokio::spawn(task).abort_handle());
    }

    pub(crate) fn abort(&self) {
        self.tasks.lock().unwrap().drain(..).for_each(|task| task.abort());
    }

    /// Takes the file as it is now; what was not committed is lost.
    pub(crate) fn take_disk(&self) -> Option<Connection> {
        let writer = self.writer.lock().unwrap().take();
        writer.map(SqliteCommitLoop::into_connection)
    }

    pub(crate) fn with_disk<T>(&self, look: impl FnOnce(&Connection) -> T) -> Option<T> {
        self.writer.lock().unwrap().as_ref().map(|writer| look(writer.connection()))
    }

    fn commit(&self) -> Option<CommitResult> {
        self.writer.lock().unwrap().as_mut().map(SqliteCommitLoop::commit_next)
    }

    /// Stops like after a signal: nothing new is taken, requests in flight have their grace period, the store is closed.
    pub(crate) async fn stop(self: Arc<Self>, env: Arc<SimulationEnv>, down: i64) {
        let access = env.state().access.take();
        env.event_log().lives[self.number as usize].leaving_at = Some(env.now());
        if let Some(access) = &access {
            access.service.readiness().stop();
        }
        self.stop.stop_gracefully();
        let limit = Duration::from_millis((env.plan.grace + 5 * SECOND) as u64);
        let was_in_time = tokio::time::timeout(limit, self.engine_ended.notified()).await.is_ok();
        if env.is_dead(self.number) {
            return;
        }
        let had_trouble = env.state().trouble.is_some();
        if !was_in_time {
            env.complain(
                Promise::Consistency,
                format!(
                    "process {} did not stop within its grace (disk trouble: {had_trouble})",
                    self.number
                ),
            );
        }
        let mut tries_left = TRIES_WHILE_CLOSING;
        while tries_left > 0 && self.commit().is_some_and(|result| result != CommitResult::Nothing) {
            tries_left -= usize::from(had_trouble);
        }
        let leased = "SELECT count(*) FROM deliveries WHERE queue = 0";
        let in_flight =
            self.with_disk(|disk| disk.query_row(leased, [], |row| row.get::<_, i64>(0)).unwrap());
        if !had_trouble && was_in_time && in_flight.is_some_and(|count| count > 0) {
            env.complain(
                Promise::Consistency,
                format!("process {} stopped and left {in_flight:?} in flight", self.number),
            );
        }
        env.end(self.number, ProcessEnd::Stopped, down);
    }
}

/// Commits what waits, a little later than it was notified.
async fn commit_loop(env: Arc<SimulationEnv>, process: Arc<Process>, notified: Arc<Notify>) {
    let mut rounds = 0;
    loop {
        notified.notified().await;
        loop {
            rounds += 1;
            if rounds > COMMITS_MAX {
                return env.complain(Promise::Consistency, "the engine turns in circles");
            }
            let delay = env.commit_delay();
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            if env.commit_kills(process.number, true) {
                return;
            }
            process.with_disk(|disk| archive::note_time(disk, env.now()));
            process.with_disk(|disk| env.sabotage.before_commit(disk));
            match process.commit() {
                None => return,
                Some(CommitResult::Nothing) => break,
                Some(CommitResult::Failed) => tokio::time::sleep(PAUSE_AFTER_FAILURE).await,
                Some(CommitResult::Committed(_)) if env.commit_kills(process.number, false) => return,
                // Callers get their turn between two commits.
                Some(CommitResult::Committed(_)) => tokio::task::yield_now().await,
            }
        }
    }
}

struct ProcessStart {
    env: Arc<SimulationEnv>,
    process: Arc<Process>,
    store: Arc<SqliteStore>,
    queues: Arc<EndpointQueues>,
    config_cache: Arc<ConfigCache>,
    stop: Shutdown,
}

impl ProcessStart {
    async fn run(self, events: QueueEvents) {
        let (env, life) = (self.env.clone(), self.process.number);
        let made = match self.node_builder().await {
            Ok(builder) => {
                let service = builder.service();
                let loaded = service.load_config(None).await.map_err(|error| error.to_string());
                loaded.map(|_| (Arc::new(service), builder.engine(events, self.engine_parts())))
            }
            Err(error) => Err(error),
        };
        match made {
            Ok((service, engine)) => self.publish_access(service, engine),
            // A supervisor would start it again.
            Err(_) => env.end(life, ProcessEnd::Exited, SECOND),
        }
    }

    async fn node_builder(&self) -> Result<NodeBuilder<SqliteStore>, String> {
        let (env, store) = (&self.env, &self.store);
        let joined = match env.sabotage.join(&self.process) {
            Some(joined) => joined,
            None => store.join(env.now()).await.map_err(|error| error.to_string())?,
        };
        Ok(NodeBuilder {
            store: store.clone(),
            config_cache: self.config_cache.clone(),
            node_state: Arc::new(NodeLease::single_node()),
            queues: self.queues.clone(),
            clock: env.clock.clone(),
            entropy: env.entropy.clone(),
            ids: IdGenerator::new(joined.slot, joined.newest_id),
        })
    }

    fn engine_parts(&self) -> EngineParts {
        let env = &self.env;
        let long = Duration::from_hours(24);
        let http_sender = Arc::new(FakeHttpSender { env: env.clone(), life: self.process.number });
        EngineParts {
            delivery_store: env.sabotage.delivery_store(self.store.clone()),
            http_sender: env.sabotage.http_sender(http_sender),
            grace: Duration::from_millis(env.plan.grace as u64),
            rounds: Intervals {
                gauges: long,
                count: long,
                purge: long,
                recheck: Duration::from_millis(env.plan.recheck_every as u64),
                key_uses: long,
                retention: env.plan.retention.map_or(long, |keeps| Duration::from_millis(keeps.every as u64)),
                audit_retention: long,
                health: HEALTH_EVERY,
                notices: long,
            },
        }
    }

    fn publish_access(self, service: Arc<Service>, engine: Engine) {
        let Self { env, process, queues, config_cache, stop, .. } = self;
        service.readiness().start_accepting();
        let life = process.number;
        env.event_log().lives[life as usize].ready_at = Some(env.clock.now());
        if !stop.is_graceful() {
            env.state().access = Some(Arc::new(ServiceAccess { life, service, queues, config_cache }));
            env.opened.notify_waiters();
        }
        let owner = process.clone();
        process.spawn(async move {
            let ended = engine.run(stop.clone()).await;
            if ended.is_err() || !stop.is_graceful() {
                env.end(life, ProcessEnd::Exited, SECOND);
            }
            owner.engine_ended.notify_one();
        });
    }
}
