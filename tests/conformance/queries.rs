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

async fn find(fixture: &Fixture, external_id: &str, own: Option<EventId>) -> Option<Event> {
    fixture.store().find_event(fixture.app, external_id.into(), own).await.unwrap()
}

pub(crate) async fn an_event_is_found_by_the_producer_s_id_or_by_ours(mut fixture: Fixture) {
    let mut new = fixture.one_event();
    Arc::get_mut(&mut new.event).unwrap().external_id = Some("order-1".into());
    new.dedup = vec![fixture.dedup(DedupSpace::EventId, "order-1")];
    let event = (*new.event).clone();
    fixture.accept(new).await;
    let plain = fixture.one_event();
    let other = (*plain.event).clone();
    fixture.accept(plain).await;
    assert_eq!(find(&fixture, "order-1", None).await, Some(event.clone()));
    assert_eq!(find(&fixture, "x", Some(other.id)).await, Some(other.clone()));
    assert_eq!(find(&fixture, "order-1", Some(other.id)).await, Some(event), "the producer's id comes first");
    assert_eq!(find(&fixture, "order-2", None).await, None);
    let unknown = EventId::from_i64(fixture.next_id());
    assert_eq!(find(&fixture, "x", Some(unknown)).await, None);
}

pub(crate) async fn an_idempotency_key_does_not_find_an_event(mut fixture: Fixture) {
    let mut new = fixture.one_event();
    new.dedup = vec![fixture.dedup(DedupSpace::IdempotencyKey, "k")];
    fixture.accept(new).await;
    assert_eq!(find(&fixture, "k", None).await, None);
}

pub(crate) async fn another_app_finds_nothing(mut fixture: Fixture) {
    let mut new = fixture.one_event();
    new.dedup = vec![fixture.dedup(DedupSpace::EventId, "order-1")];
    let event = new.event.id;
    let id = fixture.publish(new).await;
    fixture.app = fixture.new_app().await;
    assert_eq!(find(&fixture, "order-1", None).await, None);
    assert_eq!(find(&fixture, "", Some(event)).await, None);
    assert!(fixture.listed(id).await.is_none());
}

pub(crate) async fn a_delivery_is_shown_with_its_event_and_its_history_oldest_first(mut fixture: Fixture) {
    let id = fixture.concluded(retry_at(NOW), attempt(OutcomeClass::Http, 500)).await;
    let leased = fixture.lease(id, NOW).await;
    let event = leased.event.clone();
    fixture.record(leased, Verdict::Delivered, vec![attempt(OutcomeClass::Ok, 204)]).await;
    let (listed, history) = fixture.listed(id).await.unwrap();
    assert_eq!((&listed.delivery.id, &listed.event), (&id, &*event));
    let statuses: Vec<_> = history.iter().map(|row| row.attempt.outcome.status).collect();
    assert_eq!(statuses, [Some(500), Some(204)]);
    let unknown = DeliveryId::from_i64(fixture.next_id());
    assert!(fixture.listed(unknown).await.is_none());
}

pub(crate) async fn the_last_error_is_that_of_the_last_attempt(mut fixture: Fixture) {
    let failed = |class, error: &str| Attempt { outcome: Outcome::failed(class, error), ..attempt(class, 0) };
    let leased = fixture.leased().await;
    let id = leased.delivery.id;
    let listed = fixture.listed(id).await.unwrap().0;
    assert_eq!((listed.last_error, listed.last_contract), (None, None));
    let attempts = vec![failed(OutcomeClass::Dns, "no such name"), failed(OutcomeClass::Timeout, "too slow")];
    fixture.record(leased, retry_at(NOW), attempts).await;
    let listed = fixture.listed(id).await.unwrap().0;
    assert_eq!(listed.last_error, Some(LastError { status: None, error: Some("too slow".into()) }));
    assert_eq!(listed.last_contract, Some(attempt(OutcomeClass::Ok, 0).contract));
    let leased = fixture.lease(id, NOW).await;
    fixture.record(leased, Verdict::Delivered, vec![attempt(OutcomeClass::Ok, 200)]).await;
    assert_eq!(fixture.listed(id).await.unwrap().0.last_error, None);
}

pub(crate) async fn the_deliveries_of_an_event_are_its_own(mut fixture: Fixture) {
    let other = fixture.new_endpoint(fixture.app).await;
    let (first, second) = (fixture.draft(&[fixture.endpoint, other]), fixture.draft(&[other]));
    let expected: Vec<DeliveryId> =
        first.deliveries.iter().map(|new_delivery| new_delivery.delivery.id).collect();
    let event = first.event.id;
    fixture.accept(first).await;
    fixture.accept(second).await;
    let found = fixture.store().deliveries_of(event).await.unwrap();
    assert_eq!(found.iter().map(|row| row.delivery.id).collect::<Vec<_>>(), expected);
    assert!(
        found.iter().all(|row| row.event.id == event && row.event.data.is_empty()),
        "lists carry no data"
    );
}

pub(crate) async fn waiting_deliveries_are_counted(mut fixture: Fixture) {
    assert_eq!(fixture.store().waiting_count().await.unwrap(), 0);
    for state in DeliveryState::ALL {
        fixture.one_in(state).await;
    }
    assert_eq!(fixture.store().waiting_count().await.unwrap(), 2, "pending and retrying");
}

pub(crate) async fn the_latest_attempts_are_found_wherever_their_deliveries_are(mut fixture: Fixture) {
    let at = |seconds| Attempt { started_at: after(seconds), ..attempt(OutcomeClass::Http, 500) };
    let retried = fixture.concluded(retry_at(after(1)), at(0)).await;
    let dead = fixture.concluded(dead(DeadReason::Exhausted), at(5)).await;
    // Retried much later, after newer ones arrived.
    let leased = fixture.lease(retried, after(1)).await;
    fixture.record(leased, retry_at(after(100)), vec![at(10)]).await;
    let waiting = fixture.waiting().await;
    let own = fixture.endpoint;
    fixture.endpoint = fixture.new_endpoint(fixture.app).await;
    fixture.concluded(retry_at(after(1)), at(7)).await;
    let latest = |most| fixture.store().recent_attempts(fixture.app, own, most);
    let seen = latest(10).await.unwrap();
    let places: Vec<_> = seen.iter().map(|(delivery, past)| (*delivery, past.position)).collect();
    assert_eq!(places, [(retried, 2), (dead, 1), (retried, 1)]);
    assert!(places.iter().all(|(delivery, _)| *delivery != waiting));
    assert_eq!(latest(1).await.unwrap().len(), 1);
}

pub(crate) async fn the_app_of_an_object_is_found_by_its_id(mut fixture: Fixture) {
    let mut new = fixture.one_event();
    new.dedup =
        vec![fixture.dedup(DedupSpace::EventId, "order-1"), fixture.dedup(DedupSpace::IdempotencyKey, "k")];
    let event = new.event.id;
    let delivery = fixture.publish(new).await;
    let owner = async |thing| fixture.store().owner(thing).await.unwrap();
    assert_eq!(owner(ObjectId::Event(event)).await, Some(Owner(Some(fixture.app))));
    assert_eq!(owner(ObjectId::Delivery(delivery)).await, Some(Owner(Some(fixture.app))));
    assert_eq!(owner(ObjectId::Delivery(DeliveryId::from_i64(1))).await, None);
    let keys = ["order-1", "order-2"].map(|id| fixture.dedup(DedupSpace::EventId, id));
    let named = fixture.store().events_by_dedup_key(keys.to_vec()).await.unwrap();
    assert_eq!(named, [(event, fixture.app)]);
}
