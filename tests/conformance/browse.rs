//! Finding an event or a delivery, and the details that are shown.

use crate::fixture::{Fixture, NOW, after, attempt, dead, retry_at};
use posthaste::{
    domain::{
        delivery::DeliveryState,
        event::{DedupSpace, Event},
        id::{DeliveryId, EventId},
        outcome::{Attempt, Outcome, OutcomeClass},
        verdict::{DeadReason, Verdict},
    },
    store::queries::{LastError, ObjectId, Owner},
};
use std::sync::Arc;

async fn find(stage: &Fixture, external_id: &str, own: Option<EventId>) -> Option<Event> {
    stage.store().find_event(stage.app, external_id.into(), own).await.unwrap()
}

pub(crate) async fn an_event_is_found_by_the_producer_s_id_or_by_ours(mut stage: Fixture) {
    let mut new = stage.one_event();
    Arc::get_mut(&mut new.event).unwrap().external_id = Some("order-1".into());
    new.dedup = vec![stage.dedup(DedupSpace::EventId, "order-1")];
    let event = (*new.event).clone();
    stage.accept(new).await;
    let plain = stage.one_event();
    let other = (*plain.event).clone();
    stage.accept(plain).await;
    assert_eq!(find(&stage, "order-1", None).await, Some(event.clone()));
    assert_eq!(find(&stage, "x", Some(other.id)).await, Some(other.clone()));
    assert_eq!(find(&stage, "order-1", Some(other.id)).await, Some(event), "the producer's id comes first");
    assert_eq!(find(&stage, "order-2", None).await, None);
    let unknown = EventId::from_i64(stage.next_id());
    assert_eq!(find(&stage, "x", Some(unknown)).await, None);
}

pub(crate) async fn an_idempotency_key_does_not_find_an_event(mut stage: Fixture) {
    let mut new = stage.one_event();
    new.dedup = vec![stage.dedup(DedupSpace::IdempotencyKey, "k")];
    stage.accept(new).await;
    assert_eq!(find(&stage, "k", None).await, None);
}

pub(crate) async fn another_app_finds_nothing(mut stage: Fixture) {
    let mut new = stage.one_event();
    new.dedup = vec![stage.dedup(DedupSpace::EventId, "order-1")];
    let event = new.event.id;
    let id = stage.publish(new).await;
    stage.app = stage.new_app().await;
    assert_eq!(find(&stage, "order-1", None).await, None);
    assert_eq!(find(&stage, "", Some(event)).await, None);
    assert!(stage.listed(id).await.is_none());
}

pub(crate) async fn a_delivery_is_shown_with_its_event_and_its_history_oldest_first(mut stage: Fixture) {
    let id = stage.concluded(retry_at(NOW), attempt(OutcomeClass::Http, 500)).await;
    let leased = stage.lease(id, NOW).await;
    let event = leased.event.clone();
    stage.record(leased, Verdict::Delivered, vec![attempt(OutcomeClass::Ok, 204)]).await;
    let (listed, history) = stage.listed(id).await.unwrap();
    assert_eq!((&listed.delivery.id, &listed.event), (&id, &*event));
    let statuses: Vec<_> = history.iter().map(|row| row.attempt.outcome.status).collect();
    assert_eq!(statuses, [Some(500), Some(204)]);
    let unknown = DeliveryId::from_i64(stage.next_id());
    assert!(stage.listed(unknown).await.is_none());
}

pub(crate) async fn the_last_error_is_that_of_the_last_attempt(mut stage: Fixture) {
    let failed = |class, error: &str| Attempt { outcome: Outcome::failed(class, error), ..attempt(class, 0) };
    let leased = stage.leased().await;
    let id = leased.delivery.id;
    let listed = stage.listed(id).await.unwrap().0;
    assert_eq!((listed.last_error, listed.last_contract), (None, None));
    let attempts = vec![failed(OutcomeClass::Dns, "no such name"), failed(OutcomeClass::Timeout, "too slow")];
    stage.record(leased, retry_at(NOW), attempts).await;
    let listed = stage.listed(id).await.unwrap().0;
    assert_eq!(listed.last_error, Some(LastError { status: None, error: Some("too slow".into()) }));
    assert_eq!(listed.last_contract, Some(attempt(OutcomeClass::Ok, 0).contract));
    let leased = stage.lease(id, NOW).await;
    stage.record(leased, Verdict::Delivered, vec![attempt(OutcomeClass::Ok, 200)]).await;
    assert_eq!(stage.listed(id).await.unwrap().0.last_error, None);
}

pub(crate) async fn the_deliveries_of_an_event_are_its_own(mut stage: Fixture) {
    let other = stage.new_endpoint(stage.app).await;
    let (first, second) = (stage.draft(&[stage.endpoint, other]), stage.draft(&[other]));
    let expected: Vec<DeliveryId> =
        first.deliveries.iter().map(|new_delivery| new_delivery.delivery.id).collect();
    let event = first.event.id;
    stage.accept(first).await;
    stage.accept(second).await;
    let found = stage.store().deliveries_of(event).await.unwrap();
    assert_eq!(found.iter().map(|row| row.delivery.id).collect::<Vec<_>>(), expected);
    assert!(
        found.iter().all(|row| row.event.id == event && row.event.data.is_empty()),
        "lists carry no data"
    );
}

pub(crate) async fn waiting_deliveries_are_counted(mut stage: Fixture) {
    assert_eq!(stage.store().waiting_count().await.unwrap(), 0);
    for state in DeliveryState::ALL {
        stage.one_in(state).await;
    }
    assert_eq!(stage.store().waiting_count().await.unwrap(), 2, "pending and retrying");
}

pub(crate) async fn the_latest_attempts_are_found_wherever_their_deliveries_are(mut stage: Fixture) {
    let at = |seconds| Attempt { started_at: after(seconds), ..attempt(OutcomeClass::Http, 500) };
    let retried = stage.concluded(retry_at(after(1)), at(0)).await;
    let dead = stage.concluded(dead(DeadReason::Exhausted), at(5)).await;
    // Retried much later, after newer ones arrived.
    let leased = stage.lease(retried, after(1)).await;
    stage.record(leased, retry_at(after(100)), vec![at(10)]).await;
    let waiting = stage.waiting().await;
    let own = stage.endpoint;
    stage.endpoint = stage.new_endpoint(stage.app).await;
    stage.concluded(retry_at(after(1)), at(7)).await;
    let latest = |most| stage.store().recent_attempts(stage.app, own, most);
    let seen = latest(10).await.unwrap();
    let places: Vec<_> = seen.iter().map(|(delivery, past)| (*delivery, past.position)).collect();
    assert_eq!(places, [(retried, 2), (dead, 1), (retried, 1)]);
    assert!(places.iter().all(|(delivery, _)| *delivery != waiting));
    assert_eq!(latest(1).await.unwrap().len(), 1);
}

pub(crate) async fn the_app_of_an_object_is_found_by_its_id(mut stage: Fixture) {
    let mut new = stage.one_event();
    new.dedup =
        vec![stage.dedup(DedupSpace::EventId, "order-1"), stage.dedup(DedupSpace::IdempotencyKey, "k")];
    let event = new.event.id;
    let delivery = stage.publish(new).await;
    let owner = async |thing| stage.store().owner(thing).await.unwrap();
    assert_eq!(owner(ObjectId::Event(event)).await, Some(Owner(Some(stage.app))));
    assert_eq!(owner(ObjectId::Delivery(delivery)).await, Some(Owner(Some(stage.app))));
    assert_eq!(owner(ObjectId::Delivery(DeliveryId::from_i64(1))).await, None);
    let keys = ["order-1", "order-2"].map(|id| stage.dedup(DedupSpace::EventId, id));
    let named = stage.store().events_by_dedup_key(keys.to_vec()).await.unwrap();
    assert_eq!(named, [(event, stage.app)]);
}
