//! Two nodes that write at the same moment: each event is accepted, leased and recorded once and in order.

use crate::{
    fixture::{after, attempt, retry_at},
    two_nodes::{TwoNodes, play},
};
use posthaste::{
    domain::{
        delivery::DeliveryState,
        event::{DedupSpace, Fingerprint},
        health::HealthSample,
        id::{DeliveryId, EndpointId},
        ordering::OrderingMode,
        outcome::OutcomeClass,
        ports::LeasedDelivery,
        verdict::Verdict,
    },
    store::deliveries::{Accepted, ActionResult, DeliveryAction, DeliveryResult, NewEvent},
};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

fn keyed(pair: &mut TwoNodes, key: &str) -> NewEvent {
    let mut new = pair.fixture.one_event();
    new.dedup = vec![
        pair.fixture.dedup(DedupSpace::EventId, key),
        pair.fixture.dedup(DedupSpace::IdempotencyKey, key),
    ];
    new.fingerprint = Fingerprint([3; 16]);
    new
}

async fn an_event_published_at_two_nodes_under_one_key_is_stored_once(mut pair: TwoNodes) {
    let held = pair.hold("INSERT ON events").await;
    let (first, second) = (keyed(&mut pair, "a"), keyed(&mut pair, "a"));
    let (id, other) = (first.event.id, pair.other.store.clone());
    let accepting = tokio::spawn(async move { other.accept(vec![first]).await });
    held.until_waiting(1).await;
    let store = pair.fixture.shared_store();
    let repeating = tokio::spawn(async move { store.accept(vec![second]).await });
    held.until_waiting(2).await;
    held.release().await;
    assert_eq!(accepting.await.unwrap().unwrap(), [Accepted::New]);
    let repeated = repeating.await.unwrap().unwrap();
    assert!(matches!(&repeated[..], [Accepted::Repeated { event, .. }] if event.id == id), "{repeated:?}");
    assert_eq!(pair.shared.run("SELECT count(*) FROM events"), "1");
    assert_eq!(pair.shared.run("SELECT count(*) FROM dedup"), "2");
}

async fn a_delivery_being_leased_by_another_node_cannot_be_cancelled(mut pair: TwoNodes) {
    let id = pair.fixture.waiting().await;
    let held = pair.hold("UPDATE ON deliveries_open").await;
    let (other, request) = (pair.other.store.clone(), pair.fixture.refill_request(pair.fixture.endpoint, 1));
    let taking = tokio::spawn(async move { other.lease_due(vec![request], after(1)).await });
    held.until_waiting(1).await;
    let (store, app) = (pair.fixture.shared_store(), pair.fixture.app);
    let cancelling =
        tokio::spawn(async move { store.act(app, id, DeliveryAction::Cancel, after(1), None).await });
    held.until_waiting(2).await;
    held.release().await;
    taking.await.unwrap().unwrap();
    let result = cancelling.await.unwrap().unwrap();
    assert!(matches!(result, ActionResult::Refused(_)), "{result:?}");
    pair.other.quiet().await;
    assert_eq!(pair.other.recorder.take_leased().len(), 1);
    assert_eq!(pair.fixture.delivery(id).await.state, DeliveryState::InFlight);
}

async fn deliveries_being_leased_are_skipped_and_not_waited_for(mut pair: TwoNodes) {
    let (first, second) = (pair.fixture.waiting().await, pair.fixture.waiting().await);
    let taking = pair.client().await;
    let lock = format!("BEGIN; SELECT 1 FROM deliveries_open WHERE id = {} FOR UPDATE", first.as_i64());
    taking.batch_execute(&lock).await.unwrap();
    pair.fixture.refill(pair.fixture.endpoint, 2, after(20)).await;
    assert_eq!(pair.fixture.only_leased().delivery.id, second);
    taking.batch_execute("COMMIT").await.unwrap();
    pair.fixture.refill(pair.fixture.endpoint, 2, after(20)).await;
    assert_eq!(pair.fixture.only_leased().delivery.id, first);
}

/// Refills from both nodes at the same moment.
async fn refill_both(pair: &TwoNodes, permits: usize) -> [Vec<LeasedDelivery>; 2] {
    let [one, two] = [0, 1].map(|_| pair.fixture.refill_request(pair.fixture.endpoint, permits));
    let (here, there) = tokio::join!(
        pair.fixture.store().lease_due(vec![one], after(20)),
        pair.other.store.lease_due(vec![two], after(20))
    );
    here.unwrap();
    there.unwrap();
    pair.fixture.wait_until_idle().await;
    pair.other.quiet().await;
    [pair.fixture.recorder.take_leased(), pair.other.recorder.take_leased()]
}

async fn two_nodes_refilling_one_queue_lease_each_delivery_once(mut pair: TwoNodes) {
    for _ in 0..10 {
        let drafts: Vec<_> = (0..40).map(|_| pair.fixture.one_event()).collect();
        let published: BTreeSet<DeliveryId> =
            drafts.iter().map(|new| new.deliveries[0].delivery.id).collect();
        pair.fixture.store().accept(drafts).await.unwrap();
        let [here, there] = refill_both(&pair, 40).await;
        let mut leased: Vec<_> = here.iter().chain(&there).map(|leased| leased.delivery.id).collect();
        // Each node skips the rows that the other has locked; none is left when both have ended.
        let [more, again] = refill_both(&pair, 40).await;
        leased.extend(more.iter().chain(&again).map(|leased| leased.delivery.id));
        assert_eq!(leased.len(), 40);
        assert_eq!(leased.into_iter().collect::<BTreeSet<_>>(), published);
    }
}

async fn the_order_of_a_group_holds_across_two_nodes(mut pair: TwoNodes) {
    let mut record = pair.fixture.store().endpoint(pair.fixture.endpoint).await.unwrap().unwrap();
    (record.settings.ordered, record.revision) = (OrderingMode::Endpoint, 2);
    assert!(pair.fixture.store().change_endpoint(record, None).await.unwrap());
    let mut publishing = vec![];
    for index in 0..30 {
        let mut new = pair.fixture.one_event();
        new.deliveries[0].delivery.ordering_key = OrderingMode::Endpoint.ordering_key(None);
        let store = if index % 2 == 0 { pair.fixture.shared_store() } else { pair.other.store.clone() };
        publishing.push(tokio::spawn(async move { store.accept(vec![new]).await }));
    }
    for accepted in publishing {
        assert_eq!(accepted.await.unwrap().unwrap(), [Accepted::New]);
    }
    for done in 0..30 {
        let [here, there] = refill_both(&pair, 5).await;
        let counts = (here.len(), there.len());
        assert!(counts == (1, 0) || counts == (0, 1), "{counts:?} after {done}");
        for (leased, store) in here
            .into_iter()
            .map(|one| (one, pair.fixture.shared_store()))
            .chain(there.into_iter().map(|one| (one, pair.other.store.clone())))
        {
            store.record_result(record_of(leased, OutcomeClass::Ok, Verdict::Delivered, None));
            store.flush().await.unwrap();
        }
    }
    assert_eq!(pair.shared.run("SELECT count(*) FROM deliveries_open"), "0");
}

fn record_of(
    leased: LeasedDelivery,
    class: OutcomeClass,
    verdict: Verdict,
    health_sample: Option<HealthSample>,
) -> DeliveryResult {
    let attempts = vec![attempt(class, if class == OutcomeClass::Ok { 200 } else { 500 })];
    let contract = health_sample
        .is_some()
        .then(|| Arc::new(posthaste::domain::contract::Contract::builtin().unwrap()[0].clone()));
    DeliveryResult { leased, attempts, verdict, disable: None, health_sample, ended_at: after(11), contract }
}

async fn two_nodes_that_record_failures_of_the_same_endpoints_never_deadlock(mut pair: TwoNodes) {
    let mut endpoints = vec![pair.fixture.endpoint];
    for _ in 1..20 {
        endpoints.push(pair.fixture.new_endpoint(pair.fixture.app).await);
    }
    for _ in 0..10 {
        let backwards: Vec<EndpointId> = endpoints.iter().rev().copied().collect();
        let nodes = [
            (pair.fixture.shared_store(), pair.fixture.recorder.clone(), &endpoints),
            (pair.other.store.clone(), pair.other.recorder.clone(), &backwards),
        ];
        for (store, _, order) in &nodes {
            let drafts = order.iter().map(|endpoint| {
                let mut new = pair.fixture.draft(&[*endpoint]);
                new.deliveries[0].delivery.start_in_flight();
                new.deliveries[0].permit = Some(pair.fixture.permits.take());
                new
            });
            let drafts = drafts.collect();
            store.accept(drafts).await.unwrap();
            store.flush().await.unwrap();
            store.flush().await.unwrap();
        }
        let failing = nodes.map(|(store, recorder, _)| {
            let health_sample = || Some(HealthSample { adjusted_time: Duration::from_secs(1), paused: None });
            for leased in recorder.take_leased() {
                store.record_result(record_of(
                    leased,
                    OutcomeClass::Http,
                    retry_at(after(600)),
                    health_sample(),
                ));
            }
            store
        });
        let [here, there] = failing;
        let (one, two) = tokio::join!(here.flush(), there.flush());
        one.unwrap();
        two.unwrap();
    }
    let counted =
        "SELECT min(consecutive_failures) || ' ' || max(consecutive_failures) || ' ' || count(*) FROM health";
    assert_eq!(pair.shared.run(counted), "20 20 20");
    assert_eq!(pair.shared.run("SELECT count(*) FROM deliveries_open WHERE state = 1"), "400");
    let circles = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    assert_eq!(pair.shared.run(circles), "0");
}

play! {
    database:
    an_event_published_at_two_nodes_under_one_key_is_stored_once,
    a_delivery_being_leased_by_another_node_cannot_be_cancelled,
    deliveries_being_leased_are_skipped_and_not_waited_for,
    two_nodes_refilling_one_queue_lease_each_delivery_once,
    the_order_of_a_group_holds_across_two_nodes,
    two_nodes_that_record_failures_of_the_same_endpoints_never_deadlock,
}
