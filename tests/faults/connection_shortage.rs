//! A database without a free connection, because other clients hold them all: at the start and later, on the server itself and behind
//! a pooler. Nodes wait, accept and send nothing meanwhile, and continue by themselves when there is room.

use crate::{
    database::{DatabaseFixture, RECOVERY_LIMIT, WAIT_LIMIT, all_have_ended, reports_outage},
    harness::{
        TestNode,
        connection_holders::ConnectionHolders,
        pooler::{POOL_CONNECTIONS, Pooler},
        report, wait_until,
    },
};
use std::time::Duration;
use tokio::time::Instant;

/// Connections for roles that are not superusers.
const CONNECTIONS_FREE: usize = 17;
const SERVER_OPTIONS: &str = "-c max_connections=20 -c superuser_reserved_connections=3";
const ROLE: &str = "tenant";
/// More than a node needs before it is ready.
const FREE_MAX: usize = 6;
const READY_LOG: &str = "posthaste is ready";
/// Longer than a lease.
const CROWDED_FOR: Duration = Duration::from_secs(15);
/// By then requests in flight have arrived.
const QUIET_AFTER: Duration = Duration::from_secs(2);

/// A fixture whose node has an ordinary role, as all the other clients.
async fn database() -> DatabaseFixture {
    let mut database = DatabaseFixture::new(SERVER_OPTIONS).await;
    database.run(&format!("CREATE ROLE {ROLE} LOGIN; GRANT CREATE ON DATABASE postgres TO {ROLE}"));
    let address = database.server.address("postgres").replace("user=posthaste", &format!("user={ROLE}"));
    database.home.set("STORE", &address);
    database
}

fn crowd(database: &DatabaseFixture, most: usize) -> ConnectionHolders {
    ConnectionHolders::start(most, &database.server.folder, ROLE, "SELECT 1")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_starts_without_enough_free_connections_waits_for_them() {
    let database = database().await;
    assert_eq!(database.start().await.stop().await, Some(0));
    let (mut waited, mut slowest) = (0, Duration::ZERO);
    for free in 0..FREE_MAX {
        let others = crowd(&database, CONNECTIONS_FREE - free);
        wait_until("the others are there", WAIT_LIMIT, async || others.count() == CONNECTIONS_FREE - free)
            .await;
        let mut node = database.home.spawn(&[], &["serve"]);
        wait_until("it waits, or needs no more", WAIT_LIMIT, async || {
            let log = node.log();
            node.has_ended()
                || log.contains("it is tried until it can")
                || log.contains("retrying until it answers")
                || log.contains(READY_LOG)
        })
        .await;
        waited += usize::from(!node.log().contains(READY_LOG));
        drop(others);
        let begun = Instant::now();
        node.wait_ready().await;
        database.producers.follow(&node.client);
        database.producers.publish(&format!("with-{free}")).await;
        slowest = slowest.max(begun.elapsed());
        assert_eq!(node.stop().await, Some(0), "{}", node.log());
    }
    report(format_args!(
        "one node, started without room: waited {waited} of {FREE_MAX} times, back={slowest:?}"
    ));
    assert!(waited > 2, "it had to wait {waited} times");
    assert!(slowest < RECOVERY_LIMIT, "{slowest:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_connections_accepts_nothing_and_recovers_by_itself() {
    let database = database().await;
    let mut node = database.start().await;
    let running = database.producers.start(4, Duration::from_millis(8));
    database.some_are_accepted().await;
    let others = crowd(&database, usize::MAX);
    let throw_out = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = '{ROLE}' AND application_name <> 'crowd'"
    );
    wait_until("the others have it all", WAIT_LIMIT, async || {
        database.run(&throw_out);
        others.count() == CONNECTIONS_FREE
    })
    .await;
    stays_away(&database, &[&node]).await;
    drop(others);
    let back = database.time_to_recover().await;
    database.producers.finish(running).await;
    let refused = database.producers.sent().refused.clone();
    let figures = database.finish(&mut node).await;
    report(format_args!("one node, no connection left: {figures} back={back:?} refused={refused:?}"));
    figures.assert_faultless();
    assert_eq!((figures.duplicates, figures.unknown), (0, 0), "{figures}");
    assert_eq!(refused.keys().collect::<Vec<_>>(), [&503], "nothing but 503 was said");
    assert!(back < RECOVERY_LIMIT, "{back:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_whose_pooler_has_no_connections_accept_nothing_and_recover_by_themselves() {
    let mut database = DatabaseFixture::new("").await;
    let pooler = Pooler::start_for(&database.server.folder);
    database.home.set("STORE", &pooler.address("postgres"));
    let mut one = database.start().await;
    let mut two = database.home.start().await;
    database.producers.follow_all(vec![one.client.clone(), two.client.clone()]);
    let running = database.producers.start(4, Duration::from_millis(8));
    database.some_are_accepted().await;
    let others = ConnectionHolders::start(POOL_CONNECTIONS, pooler.folder(), "posthaste", "BEGIN");
    wait_until("the others have it all", WAIT_LIMIT, async || others.count() == POOL_CONNECTIONS).await;
    stays_away(&database, &[&one, &two]).await;
    drop(others);
    let begun = Instant::now();
    let back = database.time_to_recover().await;
    for node in [&one, &two] {
        let is_ready = async || node.client.get("/readyz").await.status == 200;
        wait_until("each is ready", RECOVERY_LIMIT.saturating_sub(begun.elapsed()), is_ready).await;
    }
    database.producers.finish(running).await;
    let refused = database.producers.sent().refused.clone();
    all_have_ended(&one).await;
    assert_eq!(two.stop().await, Some(0), "{}", two.log());
    let figures = database.finish(&mut one).await;
    report(format_args!(
        "two nodes, a pooler with nothing to lend: {figures} back={back:?} refused={refused:?}"
    ));
    figures.assert_faultless();
    assert_eq!((figures.duplicates, figures.unknown), (0, 0), "{figures}");
    assert_eq!(refused.keys().collect::<Vec<_>>(), [&503], "nothing but 503 was said");
    assert!(back < RECOVERY_LIMIT, "{back:?}");
}

/// Asserts that for longer than a lease the nodes report the outage and send nothing.
async fn stays_away(database: &DatabaseFixture, nodes: &[&TestNode]) {
    for node in nodes {
        let is_away = async || reports_outage(&node.client).await;
        wait_until("it says that it cannot promise", WAIT_LIMIT, is_away).await;
    }
    let begun = Instant::now();
    tokio::time::sleep(QUIET_AFTER).await;
    let sent_so_far = database.receiver.receipts().len();
    while begun.elapsed() < CROWDED_FOR {
        for node in nodes {
            assert!(reports_outage(&node.client).await, "{}", node.log());
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(
        database.receiver.receipts().len(),
        sent_so_far,
        "a request was sent whose result could not be recorded"
    );
}
