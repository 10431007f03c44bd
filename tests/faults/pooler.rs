//! Nodes that reach their database through a real PgBouncer with pooling by transaction. They share the work although none gets
//! another's NOTIFY, and survive its restarts; an unconfigured pooler is detected.

use crate::{
    database::{DatabaseFixture, RECOVERY_LIMIT, WAIT_LIMIT},
    harness::{Behaviour, TestNode, pooler::Pooler, report, wait_until},
};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

const KNOWN_WITHIN: Duration = Duration::from_secs(1);
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(15);

/// Returns the number of shards of each node, as this one sees it.
async fn shards(node: &TestNode) -> Vec<u64> {
    let system = node.client.get("/v1/system").await.expect(200);
    system["nodes"].as_array().unwrap().iter().map(|node| node["shards"].as_u64().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_through_a_pooler_share_their_work_and_survive_its_restarts() {
    let mut database = DatabaseFixture::new("").await;
    let pooler = Pooler::start_for(&database.server.folder);
    database.home.set("STORE", &pooler.address("postgres"));
    let mut one = database.start().await;
    let mut two = database.home.start().await;
    wait_until("they divide the shards", WAIT_LIMIT, async || shards(&one).await == [128, 128]).await;

    // Only one of the two nodes sends to it, wherever the event was published.
    database.receiver.behave("/narrow", Behaviour::Slow(Duration::from_millis(2)));
    let narrow = json!({ "max_in_flight": 1 });
    two.client.make_endpoint("a", "narrow", &database.receiver.url("/narrow"), narrow).await;
    let mut known = Vec::new();
    for number in 0..5 {
        let (id, begun) = (format!("unused-{number}"), Instant::now());
        let unused = json!({ "event_types": ["thing.unused"] });
        two.client.make_endpoint("a", &id, &database.receiver.url("/unused"), unused).await;
        let is_known = async || one.client.get(&format!("/v1/apps/a/endpoints/{id}")).await.status == 200;
        wait_until("the other node knows it", WAIT_LIMIT, is_known).await;
        known.push(begun.elapsed());
    }
    known.sort();
    // The median, because a single time says little on a machine with other load.
    let known = known[2];

    let running = database.producers.start(2, Duration::from_millis(30));
    let mut slowest = Duration::ZERO;
    for client in [&one.client, &two.client, &one.client] {
        database.producers.follow(client);
        database.some_are_accepted().await;
        pooler.kill();
        pooler.start_again();
        slowest = slowest.max(database.time_to_recover().await);
    }
    let unknown = "SELECT count(*) FROM posthaste.attempts WHERE class = 9";
    assert_eq!(database.run(unknown), "0", "a restart of the pooler costs no node its epoch");
    database.some_are_accepted().await;
    let begun = Instant::now();
    two.kill().await;
    wait_until("it is taken over", WAIT_LIMIT, async || shards(&one).await == [256]).await;
    let taken_over = begun.elapsed();
    database.producers.finish(running).await;
    let figures = database.finish(&mut one).await;
    report(format_args!(
        "two nodes, restarts of the pooler and a kill: {figures} known={known:?} back={slowest:?} takeover={taken_over:?}"
    ));
    figures.assert_faultless();
    assert_eq!(database.receiver.open_most_at("/narrow"), 1);
    assert!(database.receiver.count_at("/narrow") > 100 && database.receiver.count_at("/shaky") > 100);
    assert!(known < KNOWN_WITHIN && slowest < RECOVERY_LIMIT && taken_over < TAKEN_OVER_WITHIN);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unconfigured_pooler_is_refused_and_one_without_its_database_is_waited_for() {
    let mut database = DatabaseFixture::new("").await;
    let pooler = Pooler::start_for(&database.server.folder);
    database.home.set("STORE", &pooler.address_as_server("postgres"));
    for command in ["serve", "check"] {
        let mut node = database.home.spawn(&[], &[command]);
        assert_eq!(node.exited().await.code(), Some(1), "{command}");
        assert!(node.log().contains("add pooler=true"), "{}", node.log());
    }
    assert_eq!(database.run("SELECT to_regnamespace('posthaste') IS NULL"), "t", "it was left as it was");

    database.home.set("STORE", &pooler.address("postgres"));
    database.server.crash();
    let mut node = database.home.spawn(&[], &["serve"]);
    wait_until("it waits", WAIT_LIMIT, async || node.log().contains("cannot be reached")).await;
    database.server.start_again();
    wait_until("it is ready", WAIT_LIMIT, async || node.log().contains("posthaste is ready")).await;
    assert_eq!(node.stop().await, Some(0), "{}", node.log());
}
