//! Controls: the checks of three nodes must fail for a database, connection or process that breaks its part.

use super::{
    faults::{cut_off, die, frozen},
    fixture::{ClusterFixture, WAIT_LIMIT},
    verdict::TAKEN_OVER_WITHIN,
};
use crate::harness::{
    Behaviour,
    database::{NO_BACKGROUND_WRITES, TestDatabaseServer},
    database_proxy::DatabaseProxy,
    report, wait_until,
};
use std::time::Duration;

/// A trigger that keeps dead nodes alive in the table.
const KEEP_DEAD_NODES: &str = "CREATE FUNCTION posthaste.nobody_dies() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN NEW.dead := 0; RETURN NEW; END';
    CREATE TRIGGER nobody_dies BEFORE UPDATE ON posthaste.nodes FOR EACH ROW EXECUTE FUNCTION posthaste.nobody_dies()";
/// A trigger that keeps the writer of a node that was taken over valid.
const DISABLE_FENCE: &str = "CREATE FUNCTION posthaste.fence_off() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN RETURN NULL; END';
    CREATE TRIGGER fence_off BEFORE UPDATE OF writer ON posthaste.writer_batches
    FOR EACH ROW WHEN (NEW.writer < 0) EXECUTE FUNCTION posthaste.fence_off()";
/// Less than a node needs to notice by itself that its heartbeats fail.
const FROZEN: Duration = Duration::from_millis(3500);
const ATTEMPTS_MAX: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controls_of_node_faults_no_takeover_no_fence_no_time_to_stop() {
    let mut fixture = ClusterFixture::set("").await;
    let load = fixture.load().await;
    fixture.query(KEEP_DEAD_NODES).await;
    let death = die(&mut fixture).await;
    fixture.query("DROP TRIGGER nobody_dies ON posthaste.nodes").await;
    fixture.start_again(death.of).await;
    let verdict = fixture.verdict("kill -9", load).await;
    verdict.in_flight(death.in_flight).taken_over(death.takeover).must_be_broken();
    assert!(death.takeover > TAKEN_OVER_WITHIN);

    let load = fixture.load().await;
    fixture.receiver.behave("/shared", Behaviour::Slow(Duration::from_secs(3)));
    fixture.some_are_accepted(20).await;
    let client = fixture.client(0);
    let node = &mut fixture.members[0].node;
    node.term();
    wait_until("it stops", WAIT_LIMIT, async || client.get("/readyz").await.status == 503).await;
    node.term();
    assert_eq!(node.exited().await.code(), Some(1), "it had no time");
    fixture.receiver.behave("/shared", Behaviour::Ok);
    fixture.start_again(0).await;
    let verdict = fixture.verdict("SIGTERM twice", load).await;
    report(format_args!("control: {verdict}"));
    assert!(verdict.unknown > 0 && !verdict.repeats_nothing(), "{verdict}");

    fixture.query(DISABLE_FENCE).await;
    // If the takeover takes longer than the node needs to notice by itself, the node sends nothing: then try again.
    let mut verdict = frozen(&mut fixture, FROZEN, false).await;
    for _ in 0..ATTEMPTS_MAX {
        if verdict.totals.after_success == 0 {
            verdict = frozen(&mut fixture, FROZEN, false).await;
        }
    }
    verdict.must_be_broken();
    assert!(verdict.totals.after_success > 0, "{verdict}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn control_of_a_node_that_is_cut_off_and_not_taken_over() {
    let mut fixture = ClusterFixture::set("").await;
    fixture.query(KEEP_DEAD_NODES).await;
    let verdict = cut_off(&mut fixture).await;
    verdict.must_be_broken();
    assert!(verdict.takeover.is_some_and(|takeover| takeover > TAKEN_OVER_WITHIN), "{verdict}");
    // It kept its deliveries and continued with them: a node that is not taken over loses and repeats nothing.
    assert!((verdict.lost, verdict.wrong) == (0, 0) && verdict.repeats_nothing(), "{verdict}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controls_of_database_faults_commits_that_are_undone_or_not_flushed() {
    let mut fixture = ClusterFixture::set(NO_BACKGROUND_WRITES).await;
    let load = fixture.load().await;
    for _ in 0..3 {
        for wire in &fixture.wires {
            wire.undo_the_next_batch();
        }
        let all_undone = async || fixture.wires.iter().all(DatabaseProxy::has_undone_it);
        wait_until("a batch of every node is undone", WAIT_LIMIT, all_undone).await;
        fixture.some_are_accepted(20).await;
    }
    let verdict = fixture.verdict("cut after COMMIT", load).await;
    verdict.must_be_broken();
    let (lost, wrong) = (verdict.lost, verdict.wrong);
    assert!(lost + wrong > 0, "{verdict}");

    let load = fixture.load().await;
    // After the nodes checked the settings, which they would have refused.
    fixture.run_on_server(TestDatabaseServer::stop_flushing).await;
    fixture.some_are_accepted(60).await;
    fixture.run_on_server(TestDatabaseServer::crash).await;
    fixture.run_on_server(TestDatabaseServer::start_again).await;
    fixture.run_on_server(TestDatabaseServer::flush_again).await;
    for member in 0..3 {
        fixture.members[member].node.kill().await;
    }
    for member in 0..3 {
        fixture.start_again(member).await;
    }
    let verdict = fixture.verdict("restart -m immediate", load).await;
    verdict.must_be_broken();
    assert!(verdict.lost + verdict.wrong > lost + wrong, "{verdict}");
}
