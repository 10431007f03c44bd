//! Accepting events: durable, deduplicated, handed to the engine after the commit, all or nothing.

use crate::fixture::{Fixture, NOW, after};
use bytes::Bytes;
use posthaste::{
    domain::{
        contract::WaitingWhenDisabled,
        delivery::{Availability, DeliveryState, EndReason},
        event::{DedupKey, DedupSpace, Event, Fingerprint},
        id::{EndpointId, EventId},
    },
    store::{
        StoreError,
        deliveries::{Accepted, NewEvent},
        queries::{DeliveryListFilter, EventFilter},
    },
};
use std::sync::Arc;

fn change(new: &mut NewEvent, change: impl FnOnce(&mut Event)) {
    change(Arc::get_mut(&mut new.event).expect("not shared yet"));
}

/// Returns the expected answer to a repeated publish of this event.
fn repeated(new: &NewEvent) -> Accepted {
    let deliveries = new
        .deliveries
        .iter()
        .map(|new_delivery| (new_delivery.delivery.id, new_delivery.delivery.endpoint))
        .collect();
    Accepted::Repeated { event: new.event.clone(), deliveries }
}

async fn events_stored(fixture: &Fixture) -> usize {
    fixture.store().events(fixture.app, EventFilter::default(), None, 1000).await.unwrap().rows.len()
}

pub(crate) async fn an_event_is_stored_as_it_was_given_byte_for_byte(mut fixture: Fixture) {
    let mut new = fixture.one_event();
    change(&mut new, |event| {
        event.external_id = Some("order-1".into());
        event.created_at = after(1);
        event.accepted_at = after(2);
        event.key = Some("customer 7".into());
        event.deliver_at = Some(after(3));
        event.data = Bytes::from_static(b"{\"a\": 1.0e400,\n\"a\":\"\\ud800\x00\xff\xfe\"}");
    });
    let (event, delivery) = ((*new.event).clone(), new.deliveries[0].delivery.clone());
    assert_eq!(fixture.accept(new).await, Accepted::New);
    fixture.reopen();
    let found = fixture.store().find_event(fixture.app, "absent".into(), Some(event.id)).await.unwrap();
    assert_eq!(found, Some(event));
    assert_eq!(fixture.delivery(delivery.id).await, delivery);
}

pub(crate) async fn an_event_without_subscribers_is_stored_as_skipped(mut fixture: Fixture) {
    let new = fixture.draft(&[]);
    let id = new.event.id;
    assert_eq!(fixture.accept(new).await, Accepted::New);
    let found = fixture.store().find_event(fixture.app, String::new(), Some(id)).await.unwrap().unwrap();
    assert!(found.has_no_subscribers);
    assert!(fixture.store().deliveries_of(id).await.unwrap().is_empty());
}

pub(crate) async fn new_deliveries_are_announced_or_with_a_permit_handed_to_the_engine(mut fixture: Fixture) {
    let other = fixture.new_endpoint(fixture.app).await;
    let mut new = fixture.draft(&[fixture.endpoint, other]);
    new.deliveries[0].delivery.start_in_flight();
    new.deliveries[0].permit = Some(fixture.permits.take());
    new.deliveries[1].delivery.due = Some(after(60));
    let (event, added) = (new.event.clone(), new.deliveries[0].delivery.clone());
    assert_eq!(fixture.accept(new).await, Accepted::New);
    let leased = fixture.only_leased();
    assert_eq!((&leased.delivery, &leased.event), (&added, &event));
    assert_eq!(fixture.recorder.take_waiting(), [(other, after(60))]);
    assert_eq!(fixture.delivery(added.id).await.state, DeliveryState::InFlight);
    assert_eq!(fixture.permits.taken(), 1);
}

pub(crate) async fn a_delivery_is_handed_to_the_engine_only_after_its_commit(mut fixture: Fixture) {
    fixture.recorder.gate.shut();
    let store = fixture.shared_store();
    let new = fixture.one_with_permit();
    let id = new.deliveries[0].delivery.id;
    let answer = store.accept(vec![new]);
    fixture.recorder.gate.wait_for_the_store();
    // The store is calling the listener: the committed rows can already be read, and would survive a crash here.
    assert_eq!(fixture.delivery(id).await.state, DeliveryState::InFlight);
    fixture.recorder.gate.open();
    assert_eq!(answer.await.unwrap(), [Accepted::New]);
}

pub(crate) async fn a_delivery_with_a_permit_is_handed_over_although_the_publisher_is_gone(
    mut fixture: Fixture,
) {
    let new = fixture.one_with_permit();
    let id = new.deliveries[0].delivery.id;
    drop(fixture.store().accept(vec![new]));
    fixture.wait_until_idle().await;
    assert_eq!(fixture.only_leased().delivery.id, id);
}

pub(crate) async fn a_delivery_held_at_creation_waits_if_its_endpoint_is_enabled_again(mut fixture: Fixture) {
    let mut new = fixture.one_event();
    new.deliveries[0].delivery.apply_availability(Availability::DisabledHold, NOW);
    let id = fixture.publish(new).await;
    assert_eq!(
        (fixture.delivery(id).await.state, fixture.delivery(id).await.due),
        (DeliveryState::Pending, Some(NOW))
    );
    assert_eq!(fixture.recorder.take_waiting(), [(fixture.endpoint, NOW)]);
}

pub(crate) async fn a_delivery_held_or_cancelled_at_creation_is_not_announced(mut fixture: Fixture) {
    fixture.set_availability(fixture.endpoint, Some(WaitingWhenDisabled::Held)).await;
    for (availability, ended) in [
        (Availability::DisabledHold, (DeliveryState::Held, None)),
        (Availability::DisabledCancel, (DeliveryState::Cancelled, Some(EndReason::EndpointDisabled))),
    ] {
        let mut new = fixture.one_event();
        new.deliveries[0].delivery.apply_availability(availability, NOW);
        let id = fixture.publish(new).await;
        assert_eq!(fixture.ended(id).await, ended);
    }
    assert!(fixture.recorder.take_waiting().is_empty());
    fixture.refill(fixture.endpoint, 5, after(1000)).await;
    assert!(fixture.recorder.take_leased().is_empty(), "neither is ever due");
}

pub(crate) async fn the_same_id_gives_the_same_event_again(mut fixture: Fixture) {
    let key = fixture.dedup(DedupSpace::EventId, "order-1");
    let other = fixture.new_endpoint(fixture.app).await;
    let mut first = fixture.draft(&[fixture.endpoint, other]);
    change(&mut first, |event| event.external_id = Some("order-1".into()));
    first.dedup = vec![key];
    let answer = repeated(&first);
    assert_eq!(fixture.accept(first).await, Accepted::New);
    fixture.recorder.take_waiting();
    fixture.reopen();
    let mut again = fixture.one_with_permit();
    again.dedup = vec![key];
    let ignored = again.deliveries[0].delivery.id;
    assert_eq!(fixture.accept(again).await, answer, "with the deliveries of the first");
    assert!(fixture.listed(ignored).await.is_none());
    assert!(fixture.recorder.take_leased().is_empty() && fixture.recorder.take_waiting().is_empty());
    assert_eq!(fixture.permits.taken(), 0, "its permit is free again");
}

pub(crate) async fn another_body_under_the_same_id_or_key_is_a_conflict(mut fixture: Fixture) {
    for space in [DedupSpace::EventId, DedupSpace::IdempotencyKey] {
        let key = fixture.dedup(space, "order-1");
        let mut first = fixture.one_event();
        first.dedup = vec![key];
        first.fingerprint = Fingerprint([1; 16]);
        let event = first.event.id;
        assert_eq!(fixture.accept(first).await, Accepted::New);
        let mut other = fixture.one_with_permit();
        other.dedup = vec![key];
        other.fingerprint = Fingerprint([2; 16]);
        assert_eq!(fixture.accept(other).await, Accepted::Conflict { event });
    }
    assert_eq!(events_stored(&fixture).await, 2);
    assert!(fixture.recorder.take_leased().is_empty());
    assert_eq!(fixture.permits.taken(), 0);
}

pub(crate) async fn event_ids_and_idempotency_keys_are_separate(mut fixture: Fixture) {
    for space in [DedupSpace::EventId, DedupSpace::IdempotencyKey] {
        let mut new = fixture.one_event();
        new.dedup = vec![fixture.dedup(space, "same text")];
        assert_eq!(fixture.accept(new).await, Accepted::New);
    }
}

pub(crate) async fn a_published_event_is_found_without_publishing_it_again(mut fixture: Fixture) {
    let key = fixture.dedup(DedupSpace::EventId, "order-1");
    let (same, other) = (Fingerprint([1; 16]), Fingerprint([2; 16]));
    let look = async |fixture: &Fixture, keys: Vec<DedupKey>, fingerprint| {
        fixture.store().find_duplicate(keys, fingerprint).await.unwrap()
    };
    assert_eq!(look(&fixture, vec![key], same).await, Accepted::New);
    let mut first = fixture.one_event();
    (first.dedup, first.fingerprint) = (vec![key], same);
    let (event, answer) = (first.event.id, repeated(&first));
    assert_eq!(fixture.accept(first).await, Accepted::New);
    let unknown = fixture.dedup(DedupSpace::IdempotencyKey, "order-1");
    assert_eq!(look(&fixture, vec![unknown, key], same).await, answer);
    assert_eq!(look(&fixture, vec![key], other).await, Accepted::Conflict { event });
    assert_eq!(look(&fixture, vec![unknown], same).await, Accepted::New);
    assert_eq!(events_stored(&fixture).await, 1, "nothing was stored by looking");
}

pub(crate) async fn either_of_two_keys_finds_the_event(mut fixture: Fixture) {
    let (id, key) = (fixture.dedup(DedupSpace::EventId, "a"), fixture.dedup(DedupSpace::IdempotencyKey, "b"));
    let mut first = fixture.one_event();
    first.dedup = vec![id, key];
    let answer = repeated(&first);
    assert_eq!(fixture.accept(first).await, Accepted::New);
    let unknown = fixture.dedup(DedupSpace::EventId, "never seen");
    for dedup in [vec![id], vec![key], vec![unknown, key]] {
        let mut again = fixture.one_event();
        again.dedup = dedup;
        assert_eq!(fixture.accept(again).await, answer);
    }
    assert_eq!(events_stored(&fixture).await, 1);
}

pub(crate) async fn a_duplicate_inside_one_call_resolves_to_the_first(mut fixture: Fixture) {
    let key = fixture.dedup(DedupSpace::EventId, "order-1");
    let mut three = [fixture.one_event(), fixture.one_event(), fixture.one_event()];
    for new in &mut three {
        new.dedup = vec![key];
    }
    three[2].fingerprint = Fingerprint([9; 16]);
    let (answer, event) = (repeated(&three[0]), three[0].event.id);
    let accepted = fixture.store().accept(three.into()).await.unwrap();
    assert_eq!(accepted, [Accepted::New, answer, Accepted::Conflict { event }]);
}

pub(crate) async fn duplicates_inside_one_batch_resolve_to_the_first(mut fixture: Fixture) {
    let key = fixture.dedup(DedupSpace::IdempotencyKey, "k");
    let mut both = [fixture.one_event(), fixture.one_event()];
    for new in &mut both {
        new.dedup = vec![key];
    }
    let [first, second] = both;
    let answer = repeated(&first);
    fixture.recorder.gate.shut();
    let before = fixture.one_event();
    let store = fixture.shared_store();
    let blocking = store.accept(vec![before]);
    fixture.recorder.gate.wait_for_the_store();
    // Both wait for the same next commit.
    let (one, two) = (store.accept(vec![first]), store.accept(vec![second]));
    fixture.recorder.gate.open();
    assert_eq!(blocking.await.unwrap(), [Accepted::New]);
    assert_eq!((one.await.unwrap(), two.await.unwrap()), (vec![Accepted::New], vec![answer]));
}

pub(crate) async fn answers_come_in_the_order_of_the_events(mut fixture: Fixture) {
    let key = fixture.dedup(DedupSpace::EventId, "x");
    let mut known = fixture.one_event();
    known.dedup = vec![key];
    let answer = repeated(&known);
    fixture.accept(known).await;
    let mut again = fixture.one_event();
    again.dedup = vec![key];
    let call = vec![fixture.one_event(), again, fixture.one_event()];
    let accepted = fixture.store().accept(call).await.unwrap();
    assert_eq!(accepted, [Accepted::New, answer, Accepted::New]);
}

pub(crate) async fn an_event_that_cannot_be_stored_fails_only_its_own_call(mut fixture: Fixture) {
    let known = fixture.one_event();
    let taken: EventId = known.event.id;
    fixture.accept(known).await;
    fixture.recorder.gate.shut();
    let (blocking, good, bystander) = (fixture.one_event(), fixture.one_with_permit(), fixture.one_event());
    let mut bad = fixture.one_event();
    change(&mut bad, |event| event.id = taken);
    let store = fixture.shared_store();
    let blocking = store.accept(vec![blocking]);
    fixture.recorder.gate.wait_for_the_store();
    let (broken, other) = (store.accept(vec![good, bad]), store.accept(vec![bystander]));
    fixture.recorder.gate.open();
    assert!(matches!(broken.await, Err(StoreError::Corrupt(_))));
    assert_eq!((blocking.await.unwrap(), other.await.unwrap()), (vec![Accepted::New], vec![Accepted::New]));
    fixture.wait_until_idle().await;
    assert_eq!(events_stored(&fixture).await, 3, "nothing of the broken call");
    assert!(fixture.recorder.take_leased().is_empty());
    assert_eq!(fixture.permits.taken(), 0);
}

pub(crate) async fn an_event_and_its_many_deliveries_are_stored_together(mut fixture: Fixture) {
    let endpoints: Vec<EndpointId> = (1..=1500).map(EndpointId::from_i64).collect();
    let new = fixture.draft(&endpoints);
    let (event, key) = (new.event.id, fixture.dedup(DedupSpace::EventId, "wide"));
    let new = NewEvent { dedup: vec![key], ..new };
    let answer = repeated(&new);
    assert_eq!(fixture.accept(new).await, Accepted::New);
    assert_eq!(fixture.store().deliveries_of(event).await.unwrap().len(), 1500);
    let filter = DeliveryListFilter { event: Some(event), ..DeliveryListFilter::default() };
    let page = fixture.store().deliveries(fixture.app, filter, None, 2000).await.unwrap();
    assert_eq!(page.rows.len(), 1500);
    let mut again = fixture.one_event();
    again.dedup = vec![key];
    assert_eq!(fixture.accept(again).await, answer);
}
