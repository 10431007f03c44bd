//! Batches that a node writes as one statement, which is also their transaction. The rows show it: the server numbers the
//! statements of a transaction, and a batch written in steps begins with a statement that writes no such row.

use crate::{
    fixture::{after, retry_at},
    health::{counted, plain, record_counted},
    two_nodes::{TwoNodes, play, wait_until},
};
use posthaste::{
    domain::{event::DedupSpace, verdict::Verdict},
    store::{
        StoreError,
        deliveries::{Accepted, NewEvent},
    },
};
use std::time::Duration;
use tokio::time::Instant;

/// How the newest row of a table was written.
#[derive(Debug, PartialEq, Eq)]
enum CommitStyle {
    AtOnce,
    InSteps,
}

fn way(pair: &TwoNodes, table: &str, id: &str) -> CommitStyle {
    let number = format!("SELECT cmin FROM {table} ORDER BY {id} DESC LIMIT 1");
    if pair.shared.run(&number) == "0" { CommitStyle::AtOnce } else { CommitStyle::InSteps }
}

fn way_of_events(pair: &TwoNodes) -> CommitStyle {
    way(pair, "events", "id")
}

fn way_of_attempts(pair: &TwoNodes) -> CommitStyle {
    way(pair, "attempts", "delivery")
}

/// Returns the server processes that serve the nodes.
fn connections(pair: &TwoNodes) -> Vec<String> {
    let pids = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'posthaste'";
    pair.shared.run(pids).lines().map(str::to_owned).collect()
}

async fn a_simple_batch_is_one_statement(mut pair: TwoNodes) {
    let key = pair.fixture.dedup(DedupSpace::EventId, "order-7");
    let keyed = |new| NewEvent { dedup: vec![key], ..new };
    let first = keyed(pair.fixture.one_event());
    assert_eq!(pair.fixture.accept(first).await, Accepted::New);
    assert_eq!(way_of_events(&pair), CommitStyle::AtOnce);
    record_counted(&mut pair.fixture, Verdict::Delivered, &plain()).await;
    assert_eq!(way_of_attempts(&pair), CommitStyle::AtOnce);
    let (before, again, last) =
        (connections(&pair), keyed(pair.fixture.one_event()), pair.fixture.one_event());
    let both = pair.fixture.store().accept(vec![again, last]).await.unwrap();
    assert!(matches!(&both[..], [Accepted::Repeated { .. }, Accepted::New]), "{both:?}");
    assert_eq!(way_of_events(&pair), CommitStyle::InSteps, "one is known by its key, and another is not");
    let now = connections(&pair);
    assert!(before.iter().all(|process| now.contains(process)), "which is no error: {before:?} {now:?}");
    let endpoint = pair.fixture.endpoint;
    pair.fixture.held_at_creation(endpoint).await;
    assert_eq!(way_of_events(&pair), CommitStyle::InSteps, "whether its endpoint is on has to be looked at");
}

async fn a_batch_for_an_unhealthy_endpoint_is_written_in_steps(mut pair: TwoNodes) {
    let failures = "SELECT consecutive_failures FROM health";
    for (verdict, way, left) in [
        (Verdict::Delivered, CommitStyle::AtOnce, ""),
        (retry_at(after(60)), CommitStyle::InSteps, "1"),
        (Verdict::Delivered, CommitStyle::InSteps, "0"),
        // The endpoint was unhealthy before that one, and the node assumes so until it reads otherwise.
        (Verdict::Delivered, CommitStyle::InSteps, "0"),
        (Verdict::Delivered, CommitStyle::AtOnce, "0"),
    ] {
        record_counted(&mut pair.fixture, verdict, &plain()).await;
        assert_eq!((way_of_attempts(&pair), pair.shared.run(failures)), (way, left.to_owned()));
    }
    // The database shows this node a failure that another node recorded.
    pair.shared.run("UPDATE health SET consecutive_failures = 3");
    record_counted(&mut pair.fixture, Verdict::Delivered, &plain()).await;
    assert_eq!((way_of_attempts(&pair), pair.shared.run(failures)), (CommitStyle::InSteps, "0".to_owned()));
}

/// The statement requires that all its deliveries are leased. If one is not, it fails, and each is checked separately.
async fn a_delivery_no_longer_leased_is_neither_recorded_nor_counted(mut pair: TwoNodes) {
    let (gone, kept) = (pair.fixture.leased().await, pair.fixture.leased().await);
    let (ids, store) = ([gone.delivery.id, kept.delivery.id], pair.fixture.shared_store());
    pair.shared.run(&format!("DELETE FROM deliveries_open WHERE id = {}", ids[0].as_i64()));
    let (blocking, accepted) = (pair.fixture.one_event(), pair.fixture.one_event());
    pair.fixture.recorder.gate.shut();
    let blocking = store.accept(vec![blocking]);
    pair.fixture.recorder.gate.wait_for_the_store();
    for leased in [gone, kept] {
        store.record_result(counted(leased, Verdict::Delivered, &plain(), after(1)));
    }
    let accepted = store.accept(vec![accepted]);
    pair.fixture.recorder.gate.open();
    blocking.await.unwrap();
    assert_eq!(accepted.await.unwrap(), [Accepted::New]);
    pair.fixture.wait_until_idle().await;
    assert_eq!(way_of_events(&pair), CommitStyle::InSteps, "all of them were one batch");
    for (id, recorded) in ids.into_iter().zip(["0", "1"]) {
        let attempts = format!("SELECT count(*) FROM attempts WHERE delivery = {}", id.as_i64());
        assert_eq!(pair.shared.run(&attempts), recorded);
    }
    pair.fixture.store().roll_up(Duration::ZERO, after(61)).await.unwrap();
    let endpoint = pair.fixture.endpoint.as_i64();
    let ok = format!("SELECT sum(ok) FROM statistics WHERE width = 60 AND endpoint = {endpoint}");
    assert_eq!(pair.shared.run(&ok), "1");
}

/// The event was never sent to the database, so it is not kept and stored after a reconnect.
async fn an_event_published_on_an_ended_connection_is_not_stored_later(mut pair: TwoNodes) {
    let (first, second) = (pair.fixture.one_event(), pair.fixture.one_event());
    pair.fixture.publish(first).await;
    pair.shared.the_database().go_away();
    let refused = pair.fixture.store().accept(vec![second]).await.unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused}");
    pair.shared.the_database().come_back();
    wait_until("it writes again", async || pair.fixture.store().flush().await.is_ok()).await;
    assert_eq!(pair.shared.run("SELECT count(*) FROM events"), "1");
}

/// The batch waits for the lock in the single statement or in steps, but not in both.
async fn a_locked_table_is_waited_for_once(mut pair: TwoNodes) {
    // Prepares the statement at the server: otherwise preparing it would wait for the lock already.
    let known = pair.fixture.one_event();
    pair.fixture.publish(known).await;
    assert_eq!(way_of_events(&pair), CommitStyle::AtOnce);
    let locker = pair.client().await;
    locker.batch_execute("BEGIN; LOCK TABLE posthaste.events").await.unwrap();
    let (new, begun) = (pair.fixture.one_event(), Instant::now());
    let refused = pair.fixture.store().accept(vec![new]).await.unwrap_err();
    let waited = begun.elapsed();
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused}");
    assert!((6..10).contains(&waited.as_secs()), "{waited:?}");
}

play! {
    database:
    an_event_published_on_an_ended_connection_is_not_stored_later,
    a_locked_table_is_waited_for_once,
    a_simple_batch_is_one_statement,
    a_batch_for_an_unhealthy_endpoint_is_written_in_steps,
    a_delivery_no_longer_leased_is_neither_recorded_nor_counted,
}
