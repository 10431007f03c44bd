//! State that nodes share: outage-adjusted time, queues owned by another node, keys of events that another node removes.

use crate::{
    fixture::{NOW, after, attempt, retry_at},
    health::{plain, record_counted},
    two_nodes::{TwoNodes, play},
};
use posthaste::{
    domain::{cluster::OutageReport, event::DedupSpace, outcome::OutcomeClass, verdict::Verdict},
    store::deliveries::{Accepted, DeliveryResult},
};
use std::time::Duration;

async fn adjusted_time_is_shared_by_all_nodes_and_never_runs_back(mut pair: TwoNodes) {
    let minutes = Duration::from_mins;
    let mine = |adjusted_time| OutageReport { adjusted_time, is_local_outage: false };
    let (here, there) = (pair.fixture.shared_store(), pair.other.store.clone());
    here.sync_outage_clock(mine(minutes(50)), NOW).await.unwrap();
    assert_eq!(there.sync_outage_clock(mine(minutes(2)), NOW).await.unwrap(), mine(minutes(50)));
    // The node with less time than the others rolls up.
    record_counted(&mut pair.fixture, Verdict::Delivered, &plain()).await;
    there.roll_up(minutes(3), after(1)).await.unwrap();
    assert_eq!(here.health_bootstrap(after(1)).await.unwrap().adjusted_time, minutes(50));
    there.sync_outage_clock(mine(minutes(60)), after(2)).await.unwrap();
    // Its attempts are recorded in the shared time: in its own time this one would have begun long ago.
    record_counted(&mut pair.fixture, retry_at(after(60)), &plain()).await;
    let report = here.health(pair.fixture.app, pair.fixture.endpoint, after(3)).await.unwrap();
    assert_eq!(report.health.first_failure.unwrap().adjusted_time, minutes(60));
    assert_eq!(report.clock, Some((minutes(60), after(2))));
}

async fn a_report_of_an_outage_is_valid_for_half_a_minute(pair: TwoNodes) {
    let mine = |is_local_outage| OutageReport { adjusted_time: Duration::from_mins(1), is_local_outage };
    let here = pair.fixture.store();
    assert_eq!(here.sync_outage_clock(mine(false), NOW).await.unwrap(), mine(false));
    pair.other.store.sync_outage_clock(mine(true), NOW).await.unwrap();
    assert_eq!(here.sync_outage_clock(mine(false), after(20)).await.unwrap(), mine(true));
    assert_eq!(here.sync_outage_clock(mine(false), after(40)).await.unwrap(), mine(false));
}

async fn queues_with_due_deliveries_are_found(mut pair: TwoNodes) {
    let (endpoint, other) = (pair.fixture.endpoint, pair.fixture.new_endpoint(pair.fixture.app).await);
    let behind = async |now| pair.other.store.queues_with_due(vec![endpoint, other], now).await.unwrap();
    assert_eq!(behind(after(10)).await, []);
    let mut new = pair.fixture.one_event();
    new.deliveries[0].delivery.due = Some(after(5));
    pair.fixture.publish(new).await;
    assert_eq!(behind(after(4)).await, []);
    assert_eq!(behind(after(5)).await, [endpoint]);
    pair.fixture.refill(endpoint, 1, after(5)).await;
    assert_eq!(behind(after(6)).await, [], "what is carried does not wait");
}

/// The event is looked up by its key while another node removes it, between reading the key and reading the event.
async fn an_event_that_is_being_removed_is_published_as_new(mut pair: TwoNodes) {
    let key = pair.fixture.dedup(DedupSpace::EventId, "order-7");
    let mut publish = || {
        let mut new = pair.fixture.one_event();
        new.dedup.push(key);
        new
    };
    let (first, again) = (publish(), publish());
    let id = first.event.id.as_i64();
    assert_eq!(pair.other.accept(first).await, Accepted::New);
    let remover = pair.client().await;
    let begin = "SET search_path = posthaste; BEGIN; LOCK TABLE events IN ACCESS EXCLUSIVE MODE";
    remover.batch_execute(begin).await.unwrap();
    let accepted = tokio::spawn({
        let store = pair.other.store.clone();
        async move { store.accept(vec![again]).await }
    });
    pair.until_waiting(1).await;
    let remove = format!(
        "DELETE FROM deliveries_open WHERE event = {id}; DELETE FROM dedup WHERE event = {id}; DELETE FROM events WHERE id = {id}; COMMIT"
    );
    remover.batch_execute(&remove).await.unwrap();
    assert_eq!(accepted.await.unwrap().unwrap(), [Accepted::New]);
    assert_eq!(pair.shared.run("SELECT count(*) FROM dedup"), "1");
    assert_eq!(pair.shared.run("SELECT count(*) FROM events"), "1");
}

/// Each failure holds its locks until its transaction ends, and other nodes may wait for them.
async fn simultaneous_failures_are_written_in_several_batches(mut pair: TwoNodes) {
    let new = (0..300).map(|_| pair.fixture.one_with_permit()).collect();
    pair.fixture.store().accept(new).await.unwrap();
    pair.fixture.wait_until_idle().await;
    let (leased, store) = (pair.fixture.recorder.take_leased(), pair.fixture.shared_store());
    assert_eq!(leased.len(), 300);
    let held = pair.hold("INSERT ON events").await;
    let one = pair.fixture.one_event();
    let accepted = tokio::spawn({
        let store = store.clone();
        async move { store.accept(vec![one]).await }
    });
    held.until_waiting(1).await;
    for leased in leased {
        let (attempts, verdict) = (vec![attempt(OutcomeClass::Http, 500)], retry_at(after(60)));
        let (disable, health_sample, ended_at, contract) = (None, None, after(1), None);
        store.record_result(DeliveryResult {
            leased,
            attempts,
            verdict,
            disable,
            health_sample,
            ended_at,
            contract,
        });
    }
    held.release().await;
    accepted.await.unwrap().unwrap();
    pair.fixture.wait_until_idle().await;
    let written = "SELECT string_agg(n::text, ' ' ORDER BY n) FROM (SELECT count(*) AS n FROM attempts GROUP BY xmin::text) AS t";
    assert_eq!(pair.shared.run(written), "44 128 128");
}

async fn a_command_that_waits_for_another_node_does_not_delay_events(mut pair: TwoNodes) {
    let client = pair.client().await;
    client.batch_execute("BEGIN; SELECT pg_advisory_xact_lock(8102099357864587376)").await.unwrap();
    let store = pair.other.store.clone();
    let purging = tokio::spawn(async move { store.purge_records(after(1)).await });
    pair.until_waiting(1).await;
    for _ in 0..5 {
        let accepted =
            tokio::time::timeout(Duration::from_secs(3), pair.other.accept(pair.fixture.one_event())).await;
        assert_eq!(accepted.expect("an event that waits for other nodes"), Accepted::New);
        assert!(pair.other.store.can_record());
    }
    assert!(!purging.is_finished());
    client.batch_execute("COMMIT").await.unwrap();
    purging.await.unwrap().unwrap();
}

play! {
    database:
    a_command_that_waits_for_another_node_does_not_delay_events,
    simultaneous_failures_are_written_in_several_batches,
    adjusted_time_is_shared_by_all_nodes_and_never_runs_back,
    a_report_of_an_outage_is_valid_for_half_a_minute,
    queues_with_due_deliveries_are_found,
    an_event_that_is_being_removed_is_published_as_new,
}

play! {
    file:
    adjusted_time_is_shared_by_all_nodes_and_never_runs_back,
    a_report_of_an_outage_is_valid_for_half_a_minute,
    queues_with_due_deliveries_are_found,
}
