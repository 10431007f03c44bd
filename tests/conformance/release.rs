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

async fn release(stage: &Fixture, leased: LeasedDelivery) {
    stage.store().release(vec![leased], after(5)).await.unwrap();
    stage.wait_until_idle().await;
}

pub(crate) async fn a_released_delivery_is_due_as_before_and_unattempted(mut stage: Fixture) {
    let leased = stage.leased().await;
    let id = leased.delivery.id;
    release(&stage, leased).await;
    let delivery = stage.delivery(id).await;
    assert_eq!((delivery.state, delivery.due, delivery.history_len), (DeliveryState::Pending, Some(NOW), 0));
    assert!(stage.history(id).await.is_empty());
    assert_eq!(stage.recorder.take_waiting(), [(stage.endpoint, NOW)]);
    assert_eq!(stage.permits.taken(), 0);
    stage.refill(stage.endpoint, 1, after(5)).await;
    assert_eq!(stage.only_leased().delivery.id, id);
}

pub(crate) async fn a_released_retry_keeps_its_retry_index(mut stage: Fixture) {
    let id = stage.concluded(retry_at(after(1)), attempt(OutcomeClass::Http, 500)).await;
    let leased = stage.lease(id, after(1)).await;
    release(&stage, leased).await;
    let delivery = stage.delivery(id).await;
    assert_eq!(
        (delivery.state, delivery.retry_index, delivery.due),
        (DeliveryState::Retrying, 1, Some(after(1)))
    );
}

pub(crate) async fn a_released_manual_retry_stays_manual(mut stage: Fixture) {
    let id = stage.one_in(DeliveryState::Dead).await;
    stage.request(id, DeliveryAction::Retry).await;
    let leased = stage.lease(id, NOW).await;
    let back = leased.delivery.saved_state;
    release(&stage, leased).await;
    let delivery = stage.delivery(id).await;
    assert_eq!((delivery.state, delivery.saved_state), (DeliveryState::Pending, back));
    assert_eq!((delivery.due, delivery.next_attempt_at()), (Some(NOW), None));
}

pub(crate) async fn a_released_delivery_is_held_or_cancelled_if_its_endpoint_is_disabled(mut stage: Fixture) {
    let leased = stage.leased().await;
    let id = leased.delivery.id;
    stage.set_availability(stage.endpoint, Some(WaitingWhenDisabled::Held)).await;
    release(&stage, leased).await;
    assert_eq!(stage.ended(id).await, (DeliveryState::Held, None));
    stage.set_availability(stage.endpoint, None).await;
    let leased = stage.leased().await;
    let id = leased.delivery.id;
    stage.store().remove_endpoint(stage.endpoint, NOW, None).await.unwrap();
    release(&stage, leased).await;
    assert_eq!(stage.ended(id).await, (DeliveryState::Cancelled, Some(EndReason::EndpointDeleted)));
    assert!(stage.recorder.take_waiting().is_empty());
}

pub(crate) async fn a_delivery_no_longer_in_flight_cannot_be_released(mut stage: Fixture) {
    let leased = stage.leased().await;
    let (id, event, permit) = (leased.delivery.id, leased.event.clone(), stage.permits.take());
    let (delivery, due, epoch) = (leased.delivery.clone(), leased.due, leased.epoch);
    let twin = LeasedDelivery { delivery, event, due, permit, epoch };
    stage.record(leased, Verdict::Delivered, vec![attempt(OutcomeClass::Ok, 200)]).await;
    let before = stage.delivery(id).await;
    release(&stage, twin).await;
    assert_eq!(stage.delivery(id).await, before);
    assert!(stage.recorder.take_waiting().is_empty());
    assert_eq!(stage.permits.taken(), 0);
}
