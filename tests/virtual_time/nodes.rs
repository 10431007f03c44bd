//! Several nodes on one store in virtual time, each with a send gate, a lease and a configuration follower, and no
//! notifications between them: what waits for another node is found by polling.

use crate::{
    fixture::{ADMIN, payment},
    node_builder::{ENGINE_LIMITS, NoWatch, NodeBuilder, QUEUE},
};
use posthaste::{
    domain::{
        delivery::DeliveryState,
        outcome::{Outcome, OutcomeClass},
        ports::SendGate,
        time::Timestamp,
    },
    engine::{EndpointQueues, Engine, Intervals, NodeSendGate},
    outbound::{GateClosed, HttpSender, OutboundRequest, SendFuture},
    runtime::{
        Clock, ConfigCache, IdGenerator, NodeLease, ShardOwnership, Shutdown, ShutdownHandle, VirtualClock,
    },
    service::{Service, apps::NewApp, deliveries::DeliveryQuery, endpoints::NewEndpoint, replays::NewReplay},
    store::{
        ClusterStore,
        sqlite::{CommitResult, SharedFile, SimCommitLoop, SimNode},
    },
};
use serde_json::json;
use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU16, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::{sync::Notify, task::AbortHandle};

const SECOND: Duration = Duration::from_secs(1);
const TAKES: Duration = Duration::from_millis(100);

/// Receivers, and which node sent each request.
struct FakeNetwork {
    clock: Arc<VirtualClock>,
    seen: Mutex<Vec<(i64, Timestamp)>>,
    hangs: AtomicBool,
    answers: AtomicU16,
}

/// HTTP sender of one node.
struct NodeHttpSender {
    net: Arc<FakeNetwork>,
    node_state: Arc<NodeLease>,
    gate: NodeSendGate,
}

impl HttpSender for NodeHttpSender {
    fn post(&self, _: OutboundRequest) -> SendFuture<'_> {
        Box::pin(async move {
            if !self.gate.is_open() {
                return Err(GateClosed);
            }
            self.net.seen.lock().unwrap().push((self.node_state.epoch(), self.net.clock.now()));
            tokio::time::sleep(TAKES).await;
            if self.net.hangs.load(SeqCst) {
                std::future::pending::<()>().await;
            }
            let status = Some(self.net.answers.load(SeqCst));
            Ok(Outcome { status, error: None, ..Outcome::failed(OutcomeClass::Http, "") })
        })
    }

    fn get(&self, request: OutboundRequest) -> SendFuture<'_> {
        self.post(request)
    }
}

struct TwoNodes {
    clock: Arc<VirtualClock>,
    file: Arc<SharedFile>,
    net: Arc<FakeNetwork>,
}

struct Node {
    service: Arc<Service>,
    lease: Arc<NodeLease>,
    writer: Arc<Mutex<Option<SimCommitLoop>>>,
    stop: ShutdownHandle,
    tasks: Vec<AbortHandle>,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
        self.writer.lock().unwrap().take();
    }
}

impl TwoNodes {
    fn new() -> Self {
        let clock = Arc::new(VirtualClock::starting_at(Timestamp::from_millis(1_794_700_800_000)));
        let server = clock.clone();
        let file = SharedFile::new(Arc::new(move || server.now())).unwrap();
        let net = FakeNetwork {
            clock: clock.clone(),
            seen: Mutex::default(),
            hangs: AtomicBool::new(false),
            answers: AtomicU16::new(200),
        };
        Self { clock, file, net: Arc::new(net) }
    }

    async fn node(&self) -> Node {
        let (config_cache, node_state) = (Arc::<ConfigCache>::default(), Arc::<NodeLease>::default());
        let (queues, events) = EndpointQueues::new(ENGINE_LIMITS, config_cache.clone(), node_state.clone());
        let notified = Arc::new(Notify::new());
        let notify = notified.clone();
        let wake = Box::new(move || notify.notify_one());
        let entered = SimNode::enter(&self.file, queues.clone(), Arc::new(NoWatch), QUEUE, wake);
        let (store, writer) = entered.unwrap();
        let (store, writer) = (Arc::new(store), Arc::new(Mutex::new(Some(writer))));
        let writing = tokio::spawn(commit_all(writer.clone(), notified)).abort_handle();
        let joined = store.join(self.clock.now()).await.unwrap();
        node_state.join(joined.epoch);
        let delivery_store = store.clone();
        let builder = NodeBuilder {
            config_cache,
            store: store.clone(),
            cluster: store,
            node_state: node_state.clone(),
            clock: self.clock.clone(),
            ids: IdGenerator::new(joined.slot, joined.newest_id),
        };
        let service = builder.service(queues.clone());
        service.load_config(None).await.unwrap();
        service.readiness().start_accepting();
        let gate = NodeSendGate { node_state: node_state.clone(), clock: self.clock.clone(), delivery_store };
        let http_sender = NodeHttpSender { net: self.net.clone(), node_state: node_state.clone(), gate };
        let (stop, shutdown) = Shutdown::new();
        let engine = builder.engine(queues, events, Arc::new(http_sender));
        let engine = Engine { intervals: Intervals { health: SECOND, ..engine.intervals }, ..engine };
        let engine = tokio::spawn(engine.run(shutdown)).abort_handle();
        let follower = service.clone();
        let following =
            tokio::spawn(async move { follower.sync_config(&Notify::new()).await }).abort_handle();
        Node { service, lease: node_state, writer, stop, tasks: vec![writing, engine, following] }
    }

    /// Starts two nodes, with an app and an endpoint that both know.
    async fn two(&self, settings: NewEndpoint) -> (Node, Node) {
        let first = self.node().await;
        self.pass(3 * SECOND).await;
        let second = self.node().await;
        let app = NewApp { uid: Some("a".into()), name: "A".into(), ..NewApp::default() };
        first.service.add_app(ADMIN, app).await.unwrap();
        let entry = first.service.app(ADMIN, "a").unwrap();
        let url = "https://receiver.example/hook".into();
        let endpoint = NewEndpoint { uid: Some("ep".into()), url, ..settings };
        first.service.add_endpoint(ADMIN, &entry, endpoint).await.unwrap();
        self.pass(8 * SECOND).await;
        (first, second)
    }

    async fn pass(&self, time: Duration) {
        self.clock.sleep_for(time).await;
    }

    fn seen(&self) -> Vec<(i64, Timestamp)> {
        self.net.seen.lock().unwrap().clone()
    }
}

impl Node {
    async fn publish(&self, count: usize) {
        let entry = self.service.app(ADMIN, "a").unwrap();
        for _ in 0..count {
            self.service.publish(&entry, payment()).await.unwrap();
        }
    }

    async fn states(&self) -> Vec<DeliveryState> {
        let entry = self.service.app(ADMIN, "a").unwrap();
        let page = self.service.deliveries(&entry, DeliveryQuery::default(), None, 1000).await.unwrap();
        page.rows.into_iter().map(|shown| shown.delivery.state).collect()
    }

    fn shards(&self) -> usize {
        self.lease.shards_in(ShardOwnership::Local).count()
    }
}

async fn commit_all(writer: Arc<Mutex<Option<SimCommitLoop>>>, notified: Arc<Notify>) {
    let commit = || writer.lock().unwrap().as_mut().map(SimCommitLoop::commit_next);
    loop {
        notified.notified().await;
        loop {
            match commit() {
                None => return,
                Some(CommitResult::Committed(_)) => tokio::task::yield_now().await,
                Some(_) => break,
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_node_that_accepts_an_event_sends_it_and_each_node_owns_half_of_the_shards() {
    let cluster = TwoNodes::new();
    let (first, second) = cluster.two(NewEndpoint::default()).await;
    assert_eq!((first.shards(), second.shards()), (128, 128));
    first.publish(5).await;
    second.publish(5).await;
    cluster.pass(SECOND).await;
    let by = |node: &Node| cluster.seen().iter().filter(|(epoch, _)| *epoch == node.lease.epoch()).count();
    assert_eq!((by(&first), by(&second)), (5, 5));
    assert_eq!(second.states().await, [DeliveryState::Delivered; 10]);
}

#[tokio::test(start_paused = true)]
async fn a_rate_holds_over_both_nodes_and_events_published_elsewhere_are_found_without_a_notification() {
    let cluster = TwoNodes::new();
    let rate_limit = json!({ "per_second": 5, "burst": 5 }).as_object().cloned();
    let (first, second) = cluster.two(NewEndpoint { rate_limit, ..NewEndpoint::default() }).await;
    first.publish(20).await;
    second.publish(20).await;
    cluster.pass(15 * SECOND).await;
    assert_eq!(first.states().await, [DeliveryState::Delivered; 40]);
    let seen = cluster.seen();
    assert_eq!(seen.len(), 40);
    assert!(seen.iter().all(|(epoch, _)| *epoch == seen[0].0), "one of them sent all of it");
    for (number, (_, from)) in seen.iter().enumerate() {
        let in_a_second = seen[number..].iter().filter(|(_, at)| at.since(*from) < SECOND).count();
        assert!(in_a_second <= 10, "a burst of 5 and a second's worth, but {in_a_second}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_node_is_taken_over_within_fifteen_seconds_and_what_it_had_in_flight_is_sent_again() {
    let cluster = TwoNodes::new();
    let (first, second) = cluster.two(NewEndpoint::default()).await;
    cluster.net.hangs.store(true, SeqCst);
    first.publish(3).await;
    cluster.pass(SECOND).await;
    assert_eq!(cluster.seen().len(), 3);
    cluster.net.hangs.store(false, SeqCst);
    drop(first);
    cluster.pass(15 * SECOND).await;
    assert_eq!(second.states().await, [DeliveryState::Delivered; 3]);
    assert_eq!((cluster.seen().len(), second.shards()), (6, 256));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_stops_releases_everything_at_once() {
    let cluster = TwoNodes::new();
    let rate_limit = json!({ "per_second": 1, "burst": 1 }).as_object().cloned();
    let (first, second) = cluster.two(NewEndpoint { rate_limit, ..NewEndpoint::default() }).await;
    first.publish(6).await;
    second.publish(6).await;
    cluster.pass(3 * SECOND).await;
    first.stop.stop_gracefully();
    cluster.pass(SECOND).await;
    let writer = first.writer.lock().unwrap().take();
    writer.unwrap().end();
    cluster.pass(4 * SECOND).await;
    assert_eq!(second.shards(), 256);
    cluster.pass(20 * SECOND).await;
    assert_eq!(second.states().await, [DeliveryState::Delivered; 12]);
    assert_eq!(cluster.seen().len(), 12, "nothing was sent twice");
}

#[tokio::test(start_paused = true)]
async fn every_owner_of_a_failing_endpoint_evaluates_it_by_the_same_clock() {
    let cluster = TwoNodes::new();
    cluster.net.answers.store(500, SeqCst);
    let overrides = json!({
        "pacing": "strict",
        "retry": { "waits": vec!["10m"; 30], "jitter": "none" },
        "health": { "off_after_failing_for": "2h", "warning_after": null },
    });
    let (first, second) =
        cluster.two(NewEndpoint { overrides: Some(overrides.clone()), ..NewEndpoint::default() }).await;
    let entry = first.service.app(ADMIN, "a").unwrap();
    // As many as it takes for each of the nodes to own some.
    let uids = ["ep", "ep1", "ep2", "ep3", "ep4", "ep5", "ep6", "ep7"];
    for uid in &uids[1..] {
        let (uid, url) = (Some((*uid).into()), format!("https://{uid}.example/hook"));
        let endpoint = NewEndpoint { uid, url, overrides: Some(overrides.clone()), ..NewEndpoint::default() };
        first.service.add_endpoint(ADMIN, &entry, endpoint).await.unwrap();
    }
    cluster.pass(3 * SECOND).await;
    first.publish(1).await;
    cluster.pass(Duration::from_mins(115)).await;
    let are_off = || {
        let entry = second.service.app(ADMIN, "a").unwrap();
        uids.iter().filter(|uid| entry.endpoint(uid).unwrap().record.disabled.is_some()).count()
    };
    assert_eq!(are_off(), 0, "none before its time");
    cluster.pass(Duration::from_mins(20)).await;
    let senders: BTreeSet<i64> = cluster.seen().iter().map(|(epoch, _)| *epoch).collect();
    assert_eq!(senders.len(), 2, "one of them looks at the clock for other reasons as well");
    assert_eq!(are_off(), 8);
}

#[tokio::test(start_paused = true)]
async fn a_replay_to_a_queue_that_another_node_owns_waits_for_capacity_there() {
    let cluster = TwoNodes::new();
    let settings = || {
        let rate_limit = json!({ "per_second": 5, "burst": 5 }).as_object().cloned();
        NewEndpoint { rate_limit, ..NewEndpoint::default() }
    };
    let (first, second) = cluster.two(settings()).await;
    let entry = first.service.app(ADMIN, "a").unwrap();
    let uids = ["ep", "ep1", "ep2", "ep3"];
    for uid in &uids[1..] {
        let (uid, url) = (Some((*uid).into()), format!("https://{uid}.example/hook"));
        first.service.add_endpoint(ADMIN, &entry, NewEndpoint { uid, url, ..settings() }).await.unwrap();
    }
    cluster.pass(5 * SECOND).await;
    second.publish(30).await;
    cluster.pass(20 * SECOND).await;
    assert_eq!(first.states().await, [DeliveryState::Delivered; 120]);
    let senders: BTreeSet<i64> = cluster.seen().iter().map(|(epoch, _)| *epoch).collect();
    assert_eq!(senders.len(), 2, "each looks after some");
    for uid in uids {
        let (endpoint, states) = (Some(uid.to_owned()), Some(vec!["delivered".to_owned()]));
        let new = NewReplay { endpoint, states, per_second: Some(1000), ..NewReplay::default() };
        let replay = second.service.replay_of(&entry, &new).unwrap();
        second.service.begin_replay(ADMIN, &entry, replay).await.unwrap();
    }
    for _ in 0..4 {
        cluster.pass(SECOND).await;
        let waiting =
            first.states().await.into_iter().filter(|state| *state == DeliveryState::Pending).count();
        assert!(waiting <= uids.len() * 5, "a second's worth for each, but {waiting}");
    }
    cluster.pass(60 * SECOND).await;
    assert_eq!(first.states().await, [DeliveryState::Delivered; 240], "and none is left behind");
}
