//! Several nodes of a fake cluster, in virtual time: which may send, which shards they own, and what happens to nodes that
//! fall silent.

mod fake_cluster;

use super::*;
use crate::{
    domain::{
        cluster::{NO_CONFIG_VERSION, SHARD_COUNT},
        endpoint::Endpoint,
        ports::{CommitListener, Permits},
    },
    engine::{
        QueueEvents,
        ownership::tests::{RATE, in_shard, leased, limited, put, queues_of},
    },
    runtime::ShutdownHandle,
};
use fake_cluster::{FakeCluster, FakeNode};
use tokio::{task::AbortHandle, time::sleep};

const SECOND: Duration = Duration::from_secs(1);

struct RunningNode {
    queues: Arc<EndpointQueues>,
    link: Arc<FakeNode>,
    ids: IdGenerator,
    stop: ShutdownHandle,
    running: AbortHandle,
    _events: QueueEvents,
}

impl Drop for RunningNode {
    fn drop(&mut self) {
        self.running.abort();
    }
}

impl RunningNode {
    /// Joins, with one app in its configuration cache.
    async fn join(cluster: &Arc<FakeCluster>) -> Self {
        let node_state = Arc::<NodeLease>::default();
        let (queues, events) = queues_of(node_state.clone());
        let door = FakeNode::to(cluster);
        let joined = door.join(cluster.clock.now()).await.unwrap();
        node_state.join(joined.epoch);
        let ids = IdGenerator::new(joined.slot, joined.newest_id);
        let membership = Membership {
            queues: queues.clone(),
            cluster_store: door.clone(),
            clock: cluster.clock.clone(),
            ids: ids.clone(),
        };
        let (stop, shutdown) = Shutdown::new();
        let running = tokio::spawn(membership.run(shutdown)).abort_handle();
        Self { queues, link: door, ids, stop, running, _events: events }
    }

    /// Joins two nodes; the first owns the first shard, the second the last.
    async fn two(cluster: &Arc<FakeCluster>) -> (Self, Self) {
        let first = Self::join(cluster).await;
        sleep(3 * SECOND).await;
        let second = Self::join(cluster).await;
        sleep(5 * SECOND).await;
        (first, second)
    }

    fn node_state(&self) -> &NodeLease {
        self.queues.node_state()
    }

    fn may_send(&self, cluster: &FakeCluster) -> bool {
        self.node_state().is_lease_valid(|| cluster.clock.monotonic())
    }

    fn put(&self, endpoint: &Arc<Endpoint>) {
        put(&self.queues, endpoint);
    }

    fn may_take(&self, endpoint: &Endpoint) -> bool {
        self.queues.take(endpoint.id(), 1).is_some()
    }

    fn owned_shards(&self) -> usize {
        self.node_state().shards_in(ShardOwnership::Local).count()
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_has_not_read_the_configuration_yet_takes_no_shard_from_others() {
    let cluster = FakeCluster::new();
    let node = RunningNode::join(&cluster).await;
    sleep(3 * SECOND).await;
    let newcomer = FakeNode::to(&cluster);
    let epoch = newcomer.join(cluster.clock.now()).await.unwrap().epoch;
    let lives = |config_version| newcomer.heartbeat(Heartbeat { config_version, ..Heartbeat::default() });
    for _ in 0..5 {
        lives(NO_CONFIG_VERSION).await.unwrap().unwrap();
        sleep(SECOND).await;
        assert_eq!(node.owned_shards(), SHARD_COUNT);
    }
    for _ in 0..3 {
        lives(0).await.unwrap().unwrap();
        sleep(SECOND).await;
    }
    assert_eq!(
        (node.owned_shards(), cluster.shards_of(epoch), cluster.shards_of(0)),
        (SHARD_COUNT / 2, 0, SHARD_COUNT / 2)
    );
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_holds_from_when_it_was_sent_and_silence_closes_the_gate_sooner() {
    let cluster = FakeCluster::new();
    let node = RunningNode::join(&cluster).await;
    assert!(!node.may_send(&cluster), "nothing is sent before a heartbeat was answered");
    node.link.delay_ms.store(2000, SeqCst);
    sleep(Duration::from_millis(4500)).await;
    // Sent every second, answered 2 s later.
    assert!(node.may_send(&cluster));
    let sent_at = 2000;
    let left = Duration::from_millis(sent_at + 9000 - 4500);
    assert_eq!(node.node_state().lease_valid_until().since(cluster.clock.monotonic()), left);
    node.link.delay_ms.store(0, SeqCst);
    sleep(Duration::from_millis(5500)).await;
    node.link.is_cut.store(true, SeqCst);
    let cut = node.queues.context.exclusive_cut.notified();
    let cut_at = cluster.clock.monotonic();
    sleep(Duration::from_millis(3900)).await;
    assert!(node.may_send(&cluster) && !node.queues.context.permit_pool.is_send_gate_closed());
    sleep(Duration::from_millis(1200)).await;
    assert!(!node.may_send(&cluster), "five seconds after the last answer");
    assert!(
        node.queues.context.permit_pool.is_send_gate_closed()
            && node.queues.take(EndpointId::from_i64(5), 1).is_none()
    );
    tokio::time::timeout(20 * SECOND, cut).await.unwrap();
    let waited = cluster.clock.monotonic().since(cut_at);
    assert!((Duration::from_secs(8)..=Duration::from_secs(9)).contains(&waited), "{waited:?}");
    node.link.is_cut.store(false, SeqCst);
    sleep(Duration::from_secs(5)).await;
    assert!(
        node.may_send(&cluster) && !node.queues.context.permit_pool.is_send_gate_closed(),
        "it opens by itself"
    );
    assert_eq!(node.node_state().epoch(), 1, "there was no node to take over");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_too_late_does_not_open_the_gate() {
    let cluster = FakeCluster::new();
    let node = RunningNode::join(&cluster).await;
    node.link.delay_ms.store(2900, SeqCst);
    sleep(Duration::from_millis(2950)).await;
    assert!(node.may_send(&cluster));
    // Longer than an answer is waited for: none of them counts.
    node.link.delay_ms.store(9500, SeqCst);
    for _ in 0..30 {
        sleep(SECOND).await;
        assert!(
            node.node_state().lease_valid_until() <= Monotonic::from_millis(9000 + 3900),
            "{:?}",
            node.node_state().lease_valid_until()
        );
    }
    assert!(!node.may_send(&cluster));
}

#[tokio::test(start_paused = true)]
async fn shards_are_balanced_within_a_few_heartbeats_of_every_join_and_leave() {
    let cluster = FakeCluster::new();
    let first = RunningNode::join(&cluster).await;
    sleep(3 * SECOND).await;
    assert_eq!(first.owned_shards(), SHARD_COUNT);
    let (second, third) = (RunningNode::join(&cluster).await, RunningNode::join(&cluster).await);
    sleep(6 * SECOND).await;
    let shares = [&first, &second, &third].map(RunningNode::owned_shards);
    assert_eq!(shares.iter().sum::<usize>(), SHARD_COUNT, "{shares:?}");
    assert!(shares.iter().all(|share| (84..=86).contains(share)), "{shares:?}");
    for node in [&first, &second, &third] {
        let epoch = node.node_state().epoch();
        assert_eq!(cluster.shards_of(epoch), node.owned_shards(), "the store and the node see the same");
    }
    assert_eq!(
        first.node_state().ownership(0),
        ShardOwnership::Local,
        "the owner of the first shard keeps it"
    );
    // One node stops and gives everything away; one dies and is taken over.
    third.stop.stop_gracefully();
    sleep(6 * SECOND).await;
    assert_eq!(
        (first.owned_shards(), second.owned_shards(), third.owned_shards()),
        (SHARD_COUNT / 2, SHARD_COUNT / 2, 0)
    );
    drop(second);
    sleep(15 * SECOND).await;
    assert_eq!(
        (first.owned_shards(), third.owned_shards()),
        (SHARD_COUNT, 0),
        "the one that stops still lives"
    );
}

#[tokio::test(start_paused = true)]
async fn a_shard_is_released_only_when_its_exclusive_queues_hold_no_permits() {
    let cluster = FakeCluster::new();
    let (first, last) = (RunningNode::join(&cluster).await, in_shard(255, Some(RATE)));
    first.put(&last);
    sleep(3 * SECOND).await;
    let permit = first.queues.take(last.id(), 1).unwrap();
    let second = RunningNode::join(&cluster).await;
    second.put(&last);
    sleep(5 * SECOND).await;
    assert_eq!(first.node_state().ownership(255), ShardOwnership::Draining);
    assert_eq!(
        (first.owned_shards(), second.owned_shards()),
        (SHARD_COUNT / 2, SHARD_COUNT / 2 - 1),
        "the others have gone"
    );
    assert!(!first.may_take(&last) && !second.may_take(&last), "neither has permits for it meanwhile");
    drop(permit);
    sleep(4 * SECOND).await;
    assert_eq!(
        (first.node_state().ownership(255), second.node_state().ownership(255)),
        (ShardOwnership::Remote, ShardOwnership::Local)
    );
    assert!(!first.may_take(&last) && second.may_take(&last));
}

#[tokio::test(start_paused = true)]
async fn the_leader_keeps_its_shard_while_it_works() {
    let cluster = FakeCluster::new();
    let first = RunningNode::join(&cluster).await;
    sleep(3 * SECOND).await;
    let at_work = first.node_state().shards_in(ShardOwnership::Local).next().map(|_| {
        let node_state = first.queues.node_state();
        node_state.lead(|| cluster.clock.monotonic()).unwrap()
    });
    first.stop.stop_gracefully();
    sleep(3 * SECOND).await;
    assert_eq!((cluster.shards_of(1), first.node_state().ownership(0)), (1, ShardOwnership::Draining));
    drop(at_work);
    sleep(2 * SECOND).await;
    assert_eq!(cluster.shards_of(1), 0);
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_becomes_exclusive_waits_until_all_nodes_know_and_no_other_has_any_in_flight() {
    let cluster = FakeCluster::new();
    let (owner, other) = RunningNode::two(&cluster).await;
    let shared = in_shard(0, None);
    for node in [&owner, &other] {
        node.put(&shared);
        assert!(node.may_take(&shared), "shared: every node sends");
    }
    let now_limited = limited(&shared);
    cluster.state().version = 5;
    owner.put(&now_limited);
    owner.node_state().set_config_version(5, owner.node_state().epoch());
    sleep(3 * SECOND).await;
    assert!(!owner.may_take(&shared), "the other does not know yet");
    assert!(other.may_take(&shared));
    cluster.state().in_flight.insert((other.node_state().epoch(), shared.id()));
    other.put(&now_limited);
    other.node_state().set_config_version(5, other.node_state().epoch());
    sleep(3 * SECOND).await;
    assert!(!owner.may_take(&shared), "the other still has one in flight");
    assert!(!other.may_take(&shared) && other.queues.is_owned_elsewhere(shared.id()));
    cluster.state().in_flight.clear();
    sleep(Duration::from_millis(600)).await;
    assert!(owner.may_take(&shared) && !owner.queues.is_owned_elsewhere(shared.id()));
    sleep(2 * SECOND).await;
    assert!(!other.may_take(&shared));
}

/// No delivery is sent in between: the next owner acts as if it had been the owner all the time.
#[tokio::test(start_paused = true)]
async fn a_shard_is_taken_over_only_after_reading_how_its_endpoints_are() {
    let cluster = FakeCluster::new();
    let (node, failing) = (RunningNode::join(&cluster).await, in_shard(0, None));
    cluster.state().failing.push(failing.id());
    node.put(&failing);
    node.link.delay_ms.store(700, SeqCst);
    let is_throttled = || node.queues.queue(failing.id()).throttle_state(cluster.clock.now()).1;
    while node.node_state().ownership(0) != ShardOwnership::Local {
        sleep(Duration::from_millis(10)).await;
        assert!(cluster.clock.monotonic() < Monotonic::from_millis(10_000), "it never arrives");
    }
    assert!(is_throttled(), "it is probed before anything else is sent to it");
}

#[tokio::test(start_paused = true)]
async fn saved_up_tokens_are_dropped_when_a_queue_changes_its_owner() {
    let cluster = FakeCluster::new();
    let (owner, limited) = (RunningNode::join(&cluster).await, in_shard(0, Some(RATE)));
    owner.put(&limited);
    sleep(3 * SECOND).await;
    let queue = owner.queues.queue(limited.id());
    let has_token = || queue.lock().tokens.check(RATE, cluster.clock.now()).is_ok();
    assert!(queue.lock().is_exclusive_owner && has_token());
    owner.queues.give_up_shards(&[0]);
    owner.queues.take_over_shards(&[0]);
    while !queue.lock().is_exclusive_owner {
        assert!(!owner.may_take(&limited));
        sleep(Duration::from_millis(10)).await;
    }
    assert!(!has_token(), "what the last home sent a moment ago counts");
    sleep(Duration::from_millis(100)).await;
    assert!(has_token());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_taken_over_drops_everything_and_joins_again() {
    let cluster = FakeCluster::new();
    let (silent, other) = RunningNode::two(&cluster).await;
    let shared = in_shard(0, None);
    silent.put(&shared);
    let before = silent.node_state().epoch();
    let leased = |epoch| leased(&silent.queues, &shared, epoch);
    silent.queues.deliveries_leased(vec![leased(before)]);
    assert_eq!(silent.queues.permits_out(), 1);
    silent.link.is_cut.store(true, SeqCst);
    sleep(14 * SECOND).await;
    assert_eq!(cluster.shards_of(other.node_state().epoch()), SHARD_COUNT, "the other has taken over");
    assert!(!silent.may_send(&cluster));
    silent.link.is_cut.store(false, SeqCst);
    sleep(8 * SECOND).await;
    let after = silent.node_state().epoch();
    assert_ne!(after, before);
    assert_eq!(silent.queues.permits_out(), 0, "what was queued is another's now");
    assert_eq!(silent.node_state().config_version(), NO_CONFIG_VERSION, "the store may not be what it was");
    assert_eq!(
        (silent.owned_shards(), other.owned_shards()),
        (0, SHARD_COUNT),
        "what it could not serve stays with the other"
    );
    assert!(!silent.may_send(&cluster) && !silent.may_take(&shared), "it gives out no permits either");
    silent.node_state().set_config_version(0, after);
    sleep(5 * SECOND).await;
    assert_eq!((silent.owned_shards(), other.owned_shards()), (SHARD_COUNT / 2, SHARD_COUNT / 2));
    assert!(silent.may_send(&cluster) && silent.may_take(&shared));
    assert_eq!(
        silent.ids.next_range(cluster.clock.now(), 1) >> 16 & 0x3f,
        after,
        "its ids are of its new slot"
    );
    // A delivery that was committed before the takeover and is handed over only now.
    silent.queues.deliveries_leased(vec![leased(before)]);
    assert_eq!(silent.queues.permits_out(), 0);
    silent.queues.deliveries_leased(vec![leased(after)]);
    assert_eq!(silent.queues.permits_out(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_node_with_spare_permits_helps_with_a_shared_queue_that_its_owner_cannot_keep_up_with() {
    let cluster = FakeCluster::new();
    let (owner, other) = RunningNode::two(&cluster).await;
    let shared = in_shard(0, None);
    for node in [&owner, &other] {
        node.put(&shared);
    }
    other.queues.delivery_waiting(shared.id(), cluster.clock.now());
    assert_eq!(other.queues.first_due(), None, "its owner looks after it");
    owner.queues.queue(shared.id()).lock().has_stored_backlog = true;
    sleep(3 * SECOND).await;
    assert!(other.queues.take_due(cluster.clock.now(), 9).iter().any(|queue| queue.endpoint == shared.id()));
    owner.queues.queue(shared.id()).lock().has_stored_backlog = false;
    sleep(3 * SECOND).await;
    other.queues.take_due(cluster.clock.now(), 9);
    other.queues.delivery_waiting(shared.id(), cluster.clock.now());
    assert_eq!(other.queues.first_due(), None, "and again");
}
