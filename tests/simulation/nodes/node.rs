//! A process among several. It has a runtime and therefore a time of its own: a node that is not driven stands still.

use super::{
    environment::{NodesEnv, ProcessLife, at},
    node_sender::NodeHttpSender,
    sabotage::CheckedSendGate,
};
use crate::{
    actors::{ADMIN, APP},
    event_log::Promise,
    node_builder::{EngineParts, NoWatch, NodeBuilder},
};
use posthaste::{
    domain::time::Timestamp,
    engine::{EndpointQueues, EngineLimits, Intervals, NodeSendGate, QueueEvents, SharedLimits},
    runtime::{ConfigCache, IdGenerator, NodeLease, SeededEntropy, Shutdown, ShutdownHandle, VirtualClock},
    service::Service,
    store::{
        ClusterStore,
        sqlite::{CommitResult, QueueLimits, SimCommitLoop, SimNode},
    },
};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::{
    runtime::{Builder, Runtime},
    sync::Notify,
    time::Instant,
};

const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);
pub(crate) const GRACE: i64 = 4000;

pub(crate) struct Node {
    pub(crate) number: usize,
    pub(crate) life: usize,
    runtime: Runtime,
    pub(crate) clock: Arc<VirtualClock>,
    pub(crate) queues: Arc<EndpointQueues>,
    writer: SharedNodeWriter,
    shared_service: Arc<Mutex<Option<Arc<Service>>>>,
    stop: ShutdownHandle,
    has_ended: Arc<AtomicBool>,
    /// When it started, by the simulation's time and by its own, and how many of a million its clocks run too fast.
    started_at: (i64, Instant, i64),
}

/// Writer of a process, shared by the commit loop and by the code that ends it.
type SharedNodeWriter = Arc<Mutex<Option<SimCommitLoop>>>;

impl Node {
    /// Starts a process; `None` if the store could not be reached.
    pub(crate) fn start(env: &Arc<NodesEnv>, number: usize) -> Option<Self> {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let entered = runtime.enter();
        let (now, (off_ms, drift)) = (env.state().now, env.plan.clocks[number]);
        let shown = Timestamp::from_millis(at(now).as_millis() + off_ms);
        let clock = Arc::new(VirtualClock::starting_at(shown));
        let (config_cache, node_state) = (Arc::<ConfigCache>::default(), Arc::<NodeLease>::default());
        let limits = EngineLimits {
            deliveries_in_flight_max: env.plan.permits,
            bytes_max: 1 << 20,
            in_flight_per_endpoint: 64,
            limits: SharedLimits::default(),
        };
        let (queues, events) = EndpointQueues::new(limits, config_cache.clone(), node_state.clone());
        let notified = Arc::new(Notify::new());
        let notify = notified.clone();
        let queue = QueueLimits { events_max: 1000, bytes_max: 1 << 20 };
        let wake = Box::new(move || notify.notify_one());
        env.state().running = Some((number, Instant::now()));
        let reached = SimNode::enter(env.file(), queues.clone(), Arc::new(NoWatch), queue, wake);
        env.state().running = None;
        let (store, writer) = reached.ok()?;
        let life = {
            let mut log = env.log();
            log.lives.push(ProcessLife::default());
            log.lives.len() - 1
        };
        env.state().node_states[number] = Some(node_state.clone());
        let writer: SharedNodeWriter = Arc::new(Mutex::new(Some(writer)));
        runtime.spawn(commit_loop(env.clone(), number, writer.clone(), notified));
        let (stop, shutdown) = Shutdown::new();
        let (shared_service, has_ended) = (Arc::default(), Arc::<AtomicBool>::default());
        let seed = env.plan.seed ^ (life as u64) << 32;
        let boot = NodeStart {
            http_sender: (env.clone(), life),
            clock: clock.clone(),
            builder: NodeBuilder {
                store: Arc::new(store),
                config_cache,
                node_state: node_state.clone(),
                queues: queues.clone(),
                clock: clock.clone(),
                entropy: Arc::new(SeededEntropy::new(seed)),
                ids: IdGenerator::new(0, 0),
            },
            shared_service: Arc::clone(&shared_service),
            has_ended: has_ended.clone(),
        };
        runtime.spawn(boot.run(events, shutdown));
        let started_at = (now, Instant::now(), drift);
        drop(entered);
        Some(Self {
            number,
            life,
            runtime,
            clock,
            queues,
            writer,
            shared_service,
            stop,
            has_ended,
            started_at,
        })
    }

    /// Returns its service, if it can be called.
    pub(crate) fn service(&self) -> Option<Arc<Service>> {
        self.shared_service.lock().unwrap().clone()
    }

    /// Runs a call to its service.
    pub(crate) fn spawn(&self, call: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(call);
    }

    fn own_time(&self, now: i64) -> Instant {
        let (started_at, begun, drift) = self.started_at;
        let passed = now - started_at;
        begun + Duration::from_millis((passed + passed * drift / 1_000_000) as u64)
    }

    /// Runs the node until then; the simulation's time stays that of the beginning meanwhile.
    pub(crate) fn drive(&self, env: &NodesEnv, until: i64) {
        let own = self.own_time(until);
        self.runtime.block_on(async {
            env.state().running = Some((self.number, Instant::now()));
            tokio::time::sleep_until(own).await;
        });
        env.state().running = None;
    }

    /// Asserts that memory agrees with the store, once all is quiet: its epoch is stored completely, and its endpoints are
    /// as stored.
    pub(crate) fn must_agree(&self, env: &NodesEnv) {
        let epoch = env.state().node_states[self.number].as_ref().map_or(0, |node_state| node_state.epoch());
        if env.log().has_lost(epoch) {
            let what =
                format!("node {} works on under {epoch}, of which the store lost something", self.number);
            env.complain(Promise::Consistency, what);
        }
        let Some(entry) = self.service().and_then(|service| service.app(ADMIN, APP).ok()) else { return };
        for endpoint in entry.endpoints().iter() {
            let known = endpoint.record.settings.max_in_flight;
            let sql = "SELECT settings ->> 'max_in_flight' FROM endpoints WHERE id = ?1";
            let stored: Option<u32> = {
                let file = env.file().connection();
                file.query_row(sql, [endpoint.id().as_i64()], |row| row.get(0)).unwrap()
            };
            if known != stored {
                let what = format!("node {} has {known:?} for {stored:?} of {}", self.number, endpoint.id());
                env.complain(Promise::Consistency, what);
            }
        }
    }

    /// Ends a freeze, during which its clocks went on.
    pub(crate) fn thaw(&self, env: &NodesEnv, now: i64) {
        let own = self.own_time(now);
        env.state().running = Some((self.number, own));
        self.runtime.block_on(async {
            let asleep = own.saturating_duration_since(Instant::now());
            tokio::time::advance(asleep).await;
        });
        env.state().running = None;
    }

    /// Delivers a batch that was on its way, although its sender is frozen.
    pub(crate) fn arrives_late(&self, env: &NodesEnv) {
        let _entered = self.runtime.enter();
        env.state().running = Some((self.number, Instant::now()));
        let _ = self.writer.lock().unwrap().as_mut().map(SimCommitLoop::commit_next);
        env.state().running = None;
    }

    /// Returns the last batch that it knows to be stored, and under which epoch.
    pub(crate) fn confirmed(&self) -> Option<(i64, i64)> {
        self.writer.lock().unwrap().as_ref().map(SimCommitLoop::confirmed)
    }

    pub(crate) fn is_being_taken_over(&self, env: &NodesEnv) -> bool {
        let epoch = env.state().node_states[self.number].as_ref().map_or(0, |node_state| node_state.epoch());
        let sql = "SELECT EXISTS (SELECT 1 FROM nodes WHERE epoch = ?1 AND dead = 1)";
        env.file().connection().query_row(sql, [epoch], |row| row.get(0)).unwrap()
    }

    pub(crate) fn set_clock(&self, by_ms: i64) {
        let _entered = self.runtime.enter();
        self.clock.step(by_ms);
    }

    /// Stops it like a signal does.
    pub(crate) fn stop(&self) {
        if let Some(service) = self.shared_service.lock().unwrap().take() {
            service.readiness().stop();
        }
        self.stop.stop_gracefully();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(SeqCst)
    }

    /// Ends it after it has released everything.
    pub(crate) fn end(self, env: &NodesEnv) {
        let entered = self.runtime.enter();
        env.state().running = Some((self.number, Instant::now()));
        if let Some(writer) = self.writer.lock().unwrap().take() {
            writer.end();
        }
        env.state().running = None;
        drop(entered);
        self.die(env);
    }

    /// Kills it at once; nothing in memory is written.
    pub(crate) fn die(self, env: &NodesEnv) {
        if let Some(writer) = self.writer.lock().unwrap().take() {
            writer.die();
        }
        let now = env.state().now;
        env.log().lives[self.life].ended_at = Some(now);
        env.state().node_states[self.number] = None;
    }
}

/// Commits what waits, a little later than it was notified.
async fn commit_loop(env: Arc<NodesEnv>, node: usize, writer: SharedNodeWriter, notified: Arc<Notify>) {
    let commit = || writer.lock().unwrap().as_mut().map(SimCommitLoop::commit_next);
    loop {
        notified.notified().await;
        loop {
            let delay = {
                let rng = &mut env.state().rng;
                match rng.u8(0..8) {
                    0..4 => 0,
                    4..7 => rng.u64(0..40),
                    _ => rng.u64(0..500),
                }
            };
            tokio::time::sleep(Duration::from_millis(delay)).await;
            match commit() {
                None => return,
                Some(CommitResult::Nothing) => break,
                Some(CommitResult::Failed) => tokio::time::sleep(PAUSE_AFTER_FAILURE).await,
                Some(CommitResult::Committed(_)) if env.commit_kills(node) => return,
                // Callers get their turn between two commits.
                Some(CommitResult::Committed(_)) => tokio::task::yield_now().await,
            }
        }
    }
}

struct NodeStart {
    http_sender: (Arc<NodesEnv>, usize),
    clock: Arc<VirtualClock>,
    builder: NodeBuilder<SimNode>,
    shared_service: Arc<Mutex<Option<Arc<Service>>>>,
    has_ended: Arc<AtomicBool>,
}

impl NodeStart {
    /// Runs the process. Ends early if the store cannot be reached: the director starts another one.
    async fn run(mut self, events: QueueEvents, stop: Shutdown) {
        let service = self.join().await;
        if let Some(service) = service {
            let engine = self.builder.engine(events, self.engine_parts());
            let following = tokio::spawn({
                let (service, notify) = (service.clone(), self.builder.queues.configuration_notify());
                async move { service.sync_config(&notify).await }
            });
            service.readiness().start_accepting();
            if !stop.is_graceful() {
                *self.shared_service.lock().unwrap() = Some(service);
            }
            let _ = engine.run(stop).await;
            following.abort();
        }
        *self.shared_service.lock().unwrap() = None;
        self.has_ended.store(true, SeqCst);
    }

    async fn join(&mut self) -> Option<Arc<Service>> {
        let joined = self.builder.store.join(self.builder.clock.now()).await.ok()?;
        self.builder.node_state.join(joined.epoch);
        self.builder.ids = IdGenerator::new(joined.slot, joined.newest_id);
        let service = self.builder.service();
        service.load_config(None).await.ok()?;
        Some(Arc::new(service))
    }

    fn engine_parts(&self) -> EngineParts {
        let (env, life) = self.http_sender.clone();
        let (node_state, clock) = (self.builder.node_state.clone(), self.clock.clone());
        let sabotage = env.sabotage;
        let delivery_store = self.builder.store.clone();
        let honest =
            Box::new(NodeSendGate { node_state: node_state.clone(), clock: clock.clone(), delivery_store });
        let (often, seldom) = (Duration::from_secs(2), Duration::from_secs(20));
        EngineParts {
            delivery_store: self.builder.store.clone(),
            http_sender: Arc::new(NodeHttpSender {
                env,
                life,
                gate: CheckedSendGate { honest, node_state, clock, sabotage },
            }),
            grace: Duration::from_millis(GRACE as u64),
            rounds: Intervals {
                gauges: seldom,
                count: seldom,
                purge: seldom,
                recheck: often,
                key_uses: seldom,
                retention: seldom,
                audit_retention: seldom,
                health: often,
                notices: seldom,
            },
        }
    }
}
