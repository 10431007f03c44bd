//! Refilling a queue: due deliveries, oldest first, no more than there are permits, and those that end while they wait.

use crate::fixture::{Fixture, NOW, after, attempt, retry_at};
use bytes::Bytes;
use posthaste::{
    domain::{
        delivery::{DeliveryState, EndReason},
        id::DeliveryId,
        outcome::OutcomeClass,
        time::Timestamp,
        verdict::{DueAction, Verdict},
    },
    store::deliveries::{LeaseRequest, NewEvent},
};
use std::sync::Arc;

/// Makes a waiting delivery of the fixture's endpoint, due at this time.
async fn due_at(fixture: &mut Fixture, due: Timestamp) -> DeliveryId {
    let mut new = fixture.one_event();
    new.deliveries[0].delivery.due = Some(due);
    fixture.publish(new).await
}

fn with_bytes(mut new: NewEvent, bytes: usize) -> NewEvent {
    Arc::get_mut(&mut new.event).expect("not shared yet").data = Bytes::from(vec![b'1'; bytes]);
    new
}

fn carried_ids(fixture: &Fixture) -> Vec<DeliveryId> {
    fixture.recorder.take_leased().iter().map(|leased| leased.delivery.id).collect()
}

pub(crate) async fn the_oldest_are_leased_first_and_no_more_than_permits(mut fixture: Fixture) {
    let late = due_at(&mut fixture, after(3)).await;
    let early = due_at(&mut fixture, after(1)).await;
    let same_but_newer = due_at(&mut fixture, after(1)).await;
    let refilled = fixture.refill(fixture.endpoint, 2, after(10)).await;
    assert_eq!(carried_ids(&fixture), [early, same_but_newer]);
    assert_eq!(refilled.next_due, Some(after(3)), "the rest waits on, overdue");
    let refilled = fixture.refill(fixture.endpoint, 2, after(10)).await;
    assert_eq!(carried_ids(&fixture), [late]);
    assert_eq!(refilled.next_due, None);
}

pub(crate) async fn a_leased_delivery_is_in_flight_with_its_event_and_leased_once(mut fixture: Fixture) {
    let new = with_bytes(fixture.one_event(), 100_000);
    let event = new.event.clone();
    let id = fixture.publish(new).await;
    fixture.refill(fixture.endpoint, 3, NOW).await;
    let leased = fixture.only_leased();
    assert_eq!(leased.event, event);
    assert_eq!((leased.delivery.state, leased.delivery.due), (DeliveryState::InFlight, None));
    assert_eq!(fixture.delivery(id).await, leased.delivery);
    assert_eq!(fixture.permits.taken(), 1, "unused permits were released");
    fixture.refill(fixture.endpoint, 3, after(100)).await;
    assert!(fixture.recorder.take_leased().is_empty());
}

pub(crate) async fn no_delivery_is_leased_before_it_is_due(mut fixture: Fixture) {
    let id = due_at(&mut fixture, after(10)).await;
    let refilled = fixture.refill(fixture.endpoint, 5, after(9)).await;
    assert!(fixture.recorder.take_leased().is_empty());
    assert_eq!((refilled.endpoint, refilled.next_due), (fixture.endpoint, Some(after(10))));
    assert_eq!(fixture.delivery(id).await.state, DeliveryState::Pending);
    assert_eq!(fixture.permits.taken(), 0);
    fixture.refill(fixture.endpoint, 5, after(10)).await;
    assert_eq!(carried_ids(&fixture), [id]);
}

pub(crate) async fn queues_do_not_mix_and_several_refill_in_one_call(mut fixture: Fixture) {
    let (other, third) = (fixture.new_endpoint(fixture.app).await, fixture.new_endpoint(fixture.app).await);
    let new = fixture.draft(&[fixture.endpoint, other, third]);
    let ids: Vec<_> = new.deliveries.iter().map(|new_delivery| new_delivery.delivery.id).collect();
    fixture.publish(new).await;
    let requests = vec![fixture.refill_request(third, 2), fixture.refill_request(fixture.endpoint, 2)];
    let refilled = fixture.store().lease_due(requests, NOW).await.unwrap();
    fixture.wait_until_idle().await;
    assert_eq!(refilled.iter().map(|queue| queue.endpoint).collect::<Vec<_>>(), [third, fixture.endpoint]);
    assert_eq!(carried_ids(&fixture), [ids[2], ids[0]]);
    assert_eq!(fixture.delivery(ids[1]).await.state, DeliveryState::Pending);
}

pub(crate) async fn bodies_beyond_the_limit_stay_but_the_first_is_always_leased(mut fixture: Fixture) {
    let mut ids = vec![];
    for bytes in [1000, 400, 700, 10] {
        let new = with_bytes(fixture.one_event(), bytes);
        ids.push(fixture.publish(new).await);
    }
    let lease_request = |fixture: &Fixture, bytes_max| LeaseRequest {
        bytes_max,
        ..fixture.refill_request(fixture.endpoint, 10)
    };
    let small = lease_request(&fixture, 100);
    fixture.store().lease_due(vec![small], NOW).await.unwrap();
    fixture.wait_until_idle().await;
    assert_eq!(carried_ids(&fixture), ids[..1], "alone, whatever its size");
    let enough_for_one = lease_request(&fixture, 1000);
    let refilled = fixture.store().lease_due(vec![enough_for_one], NOW).await.unwrap();
    fixture.wait_until_idle().await;
    assert_eq!(carried_ids(&fixture), ids[1..2], "two would be too much");
    assert_eq!(refilled[0].next_due, Some(NOW));
}

/// A body larger than its share of the space is read separately from its delivery.
pub(crate) async fn bodies_of_any_size_come_with_their_own_events(mut fixture: Fixture) {
    let mut published = vec![];
    for bytes in [10, 50_000, 0, 9_000, 20, 120_000, 30] {
        let new = with_bytes(fixture.one_event(), bytes);
        published.push((new.deliveries[0].delivery.id, bytes));
        fixture.publish(new).await;
    }
    let lease_request = LeaseRequest { bytes_max: 60_000, ..fixture.refill_request(fixture.endpoint, 10) };
    fixture.store().lease_due(vec![lease_request], NOW).await.unwrap();
    fixture.wait_until_idle().await;
    let leased = |fixture: &Fixture| {
        let leased = fixture.recorder.take_leased();
        leased.iter().map(|one| (one.delivery.id, one.event.data.len())).collect::<Vec<_>>()
    };
    assert_eq!(leased(&fixture), published[..5]);
    let lease_request = LeaseRequest { bytes_max: 0, ..fixture.refill_request(fixture.endpoint, 10) };
    fixture.store().lease_due(vec![lease_request], NOW).await.unwrap();
    fixture.wait_until_idle().await;
    assert_eq!(leased(&fixture), published[5..6], "alone, whatever its size");
    fixture.refill(fixture.endpoint, 10, NOW).await;
    assert_eq!(leased(&fixture), published[6..]);
}

pub(crate) async fn an_empty_queue_releases_every_permit(fixture: Fixture) {
    let refilled = fixture.refill(fixture.endpoint, 7, after(1000)).await;
    assert_eq!((refilled.next_due, fixture.permits.taken()), (None, 0));
}

pub(crate) async fn a_final_wait_that_is_over_ends_without_an_attempt(mut fixture: Fixture) {
    for (then, ended) in [
        (DueAction::Exhaust, (DeliveryState::Dead, Some(EndReason::Exhausted))),
        (DueAction::Expire, (DeliveryState::Expired, Some(EndReason::GaveUp))),
    ] {
        let last = Verdict::Retry { due: after(60), then };
        let id = fixture.concluded(last, attempt(OutcomeClass::Http, 500)).await;
        fixture.refill(fixture.endpoint, 1, after(59)).await;
        assert_eq!(fixture.delivery(id).await.state, DeliveryState::Retrying, "not before its time");
        fixture.refill(fixture.endpoint, 1, after(61)).await;
        assert!(fixture.recorder.take_leased().is_empty());
        assert_eq!(fixture.ended(id).await, ended);
        assert_eq!(fixture.delivery(id).await.finished_at, Some(after(61)));
        assert_eq!(fixture.history(id).await.len(), 1, "no attempt was made");
    }
    assert_eq!(fixture.permits.taken(), 0);
}

pub(crate) async fn a_delivery_past_its_deadline_expires_when_it_is_due(mut fixture: Fixture) {
    let mut new = fixture.one_event();
    new.deliveries[0].delivery.give_up_at = Some(after(30));
    let id = fixture.publish(new).await;
    let young = fixture.waiting().await;
    fixture.refill(fixture.endpoint, 5, after(30)).await;
    assert_eq!(carried_ids(&fixture), [young]);
    assert_eq!(fixture.ended(id).await, (DeliveryState::Expired, Some(EndReason::GaveUp)));
}

/// More expired deliveries than one refill ends: those of a long idle queue do not take a commit each.
pub(crate) async fn many_expired_deliveries_end_in_one_refill_with_a_single_permit(mut fixture: Fixture) {
    for _ in 0..1005 {
        let mut new = fixture.one_event();
        new.deliveries[0].delivery.give_up_at = Some(after(5));
        fixture.publish(new).await;
    }
    let young = due_at(&mut fixture, after(1)).await;
    let refilled = fixture.refill(fixture.endpoint, 1, after(10)).await;
    assert!(refilled.has_no_oldest && carried_ids(&fixture).is_empty(), "a refill has an end");
    assert!(refilled.next_due.is_some_and(|due| due <= after(10)), "and comes back");
    fixture.refill(fixture.endpoint, 1, after(10)).await;
    assert_eq!(carried_ids(&fixture), [young]);
}

pub(crate) async fn a_retry_keeps_its_retry_index_and_its_count(mut fixture: Fixture) {
    let id = fixture.concluded(retry_at(after(60)), attempt(OutcomeClass::Http, 500)).await;
    fixture.reopen();
    fixture.refill(fixture.endpoint, 1, after(60)).await;
    let delivery = fixture.only_leased().delivery;
    assert_eq!((delivery.id, delivery.state), (id, DeliveryState::InFlight));
    assert_eq!((delivery.retry_index, delivery.attempt_count, delivery.history_len), (1, 1, 1));
}
