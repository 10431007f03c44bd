//! Faults one after the other on the same three nodes, each under a load of its own that runs until the fault is
//! over.

use super::{
    fixture::{ClusterFixture, WAIT_LIMIT},
    verdict::FaultOutcome,
};
use crate::harness::{database::TestDatabaseServer, database_proxy::WriterBatch, wait_for};
use std::time::Duration;
use tokio::time::Instant;

/// Longer than a lease, and than it takes to be taken over.
const FROZEN: Duration = Duration::from_secs(15);
/// How long the database is slow to a node that wakes: a node that sends before it checks its lease would be
/// detected.
const SLOW: Duration = Duration::from_secs(1);
pub(super) const BACK_WITHIN: Duration = Duration::from_secs(5);
/// Limit for events that are promised "within seconds", on machines with other load.
const CHANGE_LIMIT: Duration = Duration::from_secs(8);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_lose_nothing_whatever_happens_to_one_of_them_or_to_their_database() {
    let mut fixture = ClusterFixture::set("").await;
    killed(&mut fixture).await;
    frozen(&mut fixture, FROZEN, true).await.must_be_kept();
    stopped_one_by_one(&mut fixture).await;
    restarted(&mut fixture).await;
    cut_after_commit(&mut fixture).await;
    let verdict = cut_off(&mut fixture).await;
    verdict.must_be_kept();
    assert!(verdict.back.is_some_and(|back| back < BACK_WITHIN), "{verdict}");
    for member in &mut fixture.members {
        assert_eq!(member.node.stop().await, Some(0), "{}", member.node.log());
    }
}

/// Kills a node; another one starts after the takeover.
async fn killed(fixture: &mut ClusterFixture) {
    let load = fixture.load().await;
    let death = die(fixture).await;
    fixture.start_again(death.of).await;
    let back = fixture.is_shared_evenly(&[0, 1, 2]).await;
    let verdict = fixture.verdict("kill -9", load).await;
    verdict.in_flight(death.in_flight).taken_over(death.takeover).back(back).must_be_kept();
    assert!(back < CHANGE_LIMIT, "a node that joins takes its part: {back:?}");
}

pub(super) struct KilledNode {
    pub(super) of: usize,
    pub(super) in_flight: usize,
    pub(super) takeover: Duration,
}

/// Kills the node that sends to the rate-limited endpoint, so that deliveries wait in its memory.
pub(super) async fn die(fixture: &mut ClusterFixture) -> KilledNode {
    let dead = fixture.owner_of("paced").await;
    let (epoch, other) = (fixture.epoch(dead).await, (dead + 1) % 3);
    let begun = Instant::now();
    fixture.members[dead].node.kill().await;
    let in_flight = fixture.in_flight_on(epoch).await;
    let takeover = fixture.taken_over(epoch, other, begun).await;
    assert!(in_flight > 0, "the kill met nothing in flight");
    KilledNode { of: dead, in_flight, takeover }
}

/// Stops the node of the rate-limited endpoint by SIGSTOP, then SIGCONT. Its lease may be cut short without its
/// knowledge.
pub(super) async fn frozen(
    fixture: &mut ClusterFixture,
    frozen_for: Duration,
    is_lease_kept: bool,
) -> FaultOutcome {
    let load = fixture.load().await;
    let zombie = fixture.owner_of("paced").await;
    let (epoch, other) = (fixture.epoch(zombie).await, (zombie + 1) % 3);
    let (mut begun, mut in_flight) = (Instant::now(), 0);
    // Repeated until deliveries are in flight at the freeze.
    for _ in 0..50 {
        begun = Instant::now();
        if is_lease_kept {
            fixture.members[zombie].node.freeze();
        } else {
            fixture.freeze_at_rest(zombie).await;
        }
        in_flight = fixture.in_flight_on(epoch).await;
        if in_flight > 0 {
            break;
        }
        fixture.members[zombie].node.thaw();
    }
    assert!(in_flight > 0, "nothing was in flight when it froze");
    if !is_lease_kept {
        fixture.query(&format!("UPDATE posthaste.nodes SET lease_until = 0 WHERE epoch = {epoch}")).await;
    }
    let takeover = fixture.taken_over(epoch, other, begun).await;
    tokio::time::sleep(frozen_for.saturating_sub(begun.elapsed())).await;
    fixture.wires[zombie].delay(SLOW);
    fixture.members[zombie].node.thaw();
    tokio::time::sleep(SLOW * 2).await;
    fixture.wires[zombie].delay(Duration::ZERO);
    fixture.all_are_back().await;
    let back = fixture.is_shared_evenly(&[0, 1, 2]).await;
    assert_ne!(fixture.epoch(zombie).await, epoch, "it joined again");
    fixture.verdict("SIGSTOP, SIGCONT", load).await.in_flight(in_flight).taken_over(takeover).back(back)
}

/// Stops each node in turn by SIGTERM; another one starts in its place.
async fn stopped_one_by_one(fixture: &mut ClusterFixture) {
    let load = fixture.load().await;
    let (mut slowest, mut in_flight) = (Duration::ZERO, 0);
    for leaving in 0..3 {
        let epoch = fixture.epoch(leaving).await;
        in_flight += fixture.in_flight_on(epoch).await;
        assert_eq!(
            fixture.members[leaving].node.stop().await,
            Some(0),
            "{}",
            fixture.members[leaving].node.log()
        );
        assert_eq!(fixture.in_flight_on(epoch).await, 0, "deliveries that it had not tried were released");
        let others = [(leaving + 1) % 3, (leaving + 2) % 3];
        slowest = slowest.max(fixture.is_shared_evenly(&others).await);
        fixture.some_are_accepted(20).await;
        fixture.start_again(leaving).await;
        slowest = slowest.max(fixture.is_shared_evenly(&[0, 1, 2]).await);
    }
    assert!(slowest < CHANGE_LIMIT, "shards change their owner within seconds: {slowest:?}");
    let verdict = fixture.verdict("SIGTERM one by one", load).await;
    verdict.in_flight(in_flight).back(slowest).must_be_kept_and_repeat_nothing();
}

/// Restarts the database with `restart -m immediate`, twice.
async fn restarted(fixture: &mut ClusterFixture) {
    let load = fixture.load().await;
    let (mut slowest, mut in_flight) = (Duration::ZERO, 0);
    for _ in 0..2 {
        in_flight += fixture.in_flight().await;
        fixture.run_on_server(TestDatabaseServer::crash).await;
        fixture.run_on_server(TestDatabaseServer::start_again).await;
        slowest = slowest.max(fixture.all_are_back().await);
        fixture.some_are_accepted(30).await;
    }
    let verdict = fixture.verdict("restart -m immediate", load).await;
    verdict.in_flight(in_flight).back(slowest).must_be_kept_and_repeat_nothing();
    assert!(slowest < BACK_WITHIN, "{slowest:?}");
}

/// Each node's connection is cut after a COMMIT was done and before that was answered, three times.
async fn cut_after_commit(fixture: &mut ClusterFixture) {
    let load = fixture.load().await;
    let mut in_flight = 0;
    for _ in 0..3 {
        in_flight += fixture.in_flight().await;
        for wire in &fixture.wires {
            wire.lose_the_next_answer_to_a_batch();
        }
        for (member, wire) in fixture.wires.iter().enumerate() {
            let hit = wait_for("every node has lost an answer", WAIT_LIMIT, async || wire.lost_batch()).await;
            assert_eq!(hit.epoch, fixture.epoch(member).await, "it was a batch of its writer");
            let WriterBatch { epoch, number } = hit;
            let stored = format!("writer_batches WHERE epoch = {epoch} AND writer = 0 AND batch >= {number}");
            assert_eq!(fixture.count(&stored).await, 1, "which was stored: {hit:?}");
        }
        fixture.some_are_accepted(20).await;
    }
    let back = fixture.all_are_back().await;
    let verdict = fixture.verdict("cut after COMMIT", load).await;
    verdict.in_flight(in_flight).back(back).must_be_kept_and_repeat_nothing();
    assert!(back < BACK_WITHIN, "{back:?}");
}

/// Cuts the node of the rate-limited endpoint off from the database for longer than its lease; the others stay
/// connected.
pub(super) async fn cut_off(fixture: &mut ClusterFixture) -> FaultOutcome {
    let load = fixture.load().await;
    let alone = fixture.owner_of("paced").await;
    let (epoch, other) = (fixture.epoch(alone).await, (alone + 1) % 3);
    let wire = &fixture.wires[alone];
    wire.stay_cut();
    wire.lose_the_next_answer_to_a_batch();
    let begun = Instant::now();
    let hit = wait_for("it is cut off", WAIT_LIMIT, async || wire.lost_batch()).await;
    assert_eq!(hit.epoch, epoch, "in the middle of a batch of its writer");
    let in_flight = fixture.in_flight_on(epoch).await;
    let takeover = fixture.taken_over(epoch, other, begun).await;
    fixture.some_are_accepted(20).await;
    fixture.wires[alone].reconnect();
    let back = fixture.all_are_back().await;
    fixture.is_shared_evenly(&[0, 1, 2]).await;
    let verdict = fixture.verdict("cut off from the database", load).await;
    verdict.in_flight(in_flight).taken_over(takeover).back(back)
}
