//! Releasing the unsent deliveries of a stopping node: due as before, without a trace of an attempt.

use crate::fixture::{Fixture, NOW, after, attempt, retry_at};
use posthaste::{
    domain::{
        contract::WaitingWhenDisabled,
        delivery::{DeliveryState, EndReason},
        outcome::OutcomeClass,
        ports::LeasedDelivery,
        verdict::Verdict,
    },
    store::deliveries::DeliveryAction,
};

async fn release(fixture: &Fixture, leased: LeasedDelivery) {
    fixture.store().release(vec![leased], after(5)).await.unwrap();
    fixture.wait_until_idle().await;
}

pub(crate) async fn a_released_delivery_is_due_as_before_and_unattempted(mut fixture: Fixture) {
    let leased = fixture.leased().await;
    let id = leased.delivery.id;
    release(&fixture, leased).await;
    let delivery = fixture.delivery(id).await;
    assert_eq!((delivery.state, delivery.due, delivery.history_len), (DeliveryState::Pending, Some(NOW), 0));
    assert!(fixture.history(id).await.is_empty());
    assert_eq!(fixture.recorder.take_waiting(), [(fixture.endpoint, NOW)]);
    assert_eq!(fixture.permits.taken(), 0);
    fixture.refill(fixture.endpoint, 1, after(5)).await;
    assert_eq!(fixture.only_leased().delivery.id, id);
}

pub(crate) async fn a_released_retry_keeps_its_retry_index(mut fixture: Fixture) {
    let id = fixture.concluded(retry_at(after(1)), attempt(OutcomeClass::Http, 500)).await;
    let leased = fixture.lease(id, after(1)).await;
    release(&fixture, leased).await;
    let delivery = fixture.delivery(id).await;
    assert_eq!(
        (delivery.state, delivery.retry_index, delivery.due),
        (DeliveryState::Retrying, 1, Some(after(1)))
    );
}

pub(crate) async fn a_released_manual_retry_stays_manual(mut fixture: Fixture) {
    let id = fixture.one_in(DeliveryState::Dead).await;
    fixture.request(id, DeliveryAction::Retry).await;
    let leased = fixture.lease(id, NOW).await;
    let back = leased.delivery.saved_state;
    release(&fixture, leased).await;
    let delivery = fixture.delivery(id).await;
    assert_eq!((delivery.state, delivery.saved_state), (DeliveryState::Pending, back));
    assert_eq!((delivery.due, delivery.next_attempt_at()), (Some(NOW), None));
}

pub(crate) async fn a_released_delivery_is_held_or_cancelled_if_its_endpoint_is_disabled(
    mut fixture: Fixture,
) {
    let leased = fixture.leased().await;
    let id = leased.delivery.id;
    fixture.set_availability(fixture.endpoint, Some(WaitingWhenDisabled::Held)).await;
    release(&fixture, leased).await;
    assert_eq!(fixture.ended(id).await, (DeliveryState::Held, None));
    fixture.set_availability(fixture.endpoint, None).await;
    let leased = fixture.leased().await;
    let id = leased.delivery.id;
    fixture.store().remove_endpoint(fixture.endpoint, NOW, None).await.unwrap();
    release(&fixture, leased).await;
    assert_eq!(fixture.ended(id).await, (DeliveryState::Cancelled, Some(EndReason::EndpointDeleted)));
    assert!(fixture.recorder.take_waiting().is_empty());
}

pub(crate) async fn a_delivery_no_longer_in_flight_cannot_be_released(mut fixture: Fixture) {
    let leased = fixture.leased().await;
    let (id, event, permit) = (leased.delivery.id, leased.event.clone(), fixture.permits.take());
    let (delivery, due, epoch) = (leased.delivery.clone(), leased.due, leased.epoch);
    let twin = LeasedDelivery { delivery, event, due, permit, epoch };
    fixture.record(leased, Verdict::Delivered, vec![attempt(OutcomeClass::Ok, 200)]).await;
    let before = fixture.delivery(id).await;
    release(&fixture, twin).await;
    assert_eq!(fixture.delivery(id).await, before);
    assert!(fixture.recorder.take_waiting().is_empty());
    assert_eq!(fixture.permits.taken(), 0);
}
