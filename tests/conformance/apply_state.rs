//! Applying an endpoint's new state to its waiting deliveries, page by page; and erasing a payload.

use crate::fixture::{Fixture, after, attempt, retry_at};
use posthaste::{
    domain::{
        contract::WaitingWhenDisabled,
        delivery::{Availability, DeliveryState, EndReason},
        event::DedupSpace,
        id::DeliveryId,
        outcome::OutcomeClass,
    },
    store::deliveries::{Accepted, AvailabilityChange, DeliveryAction},
};

/// Changes the endpoint's state and applies it page by page as housekeeping does; returns the sizes of the pages.
async fn apply_state_all(stage: &Fixture, settle: AvailabilityChange, most: usize) -> Vec<usize> {
    match settle {
        AvailabilityChange::Enabled { .. } => stage.set_availability(stage.endpoint, None).await,
        AvailabilityChange::Disabled(Availability::Deleted) => {
            assert!(stage.store().remove_endpoint(stage.endpoint, after(9), None).await.unwrap());
        }
        AvailabilityChange::Disabled(Availability::DisabledCancel) => {
            stage.set_availability(stage.endpoint, Some(WaitingWhenDisabled::Cancelled)).await;
        }
        AvailabilityChange::Disabled(_) => {
            stage.set_availability(stage.endpoint, Some(WaitingWhenDisabled::Held)).await;
        }
    }
    apply_state_pages(stage, settle, most).await
}

async fn apply_state_pages(stage: &Fixture, settle: AvailabilityChange, most: usize) -> Vec<usize> {
    let mut pages = vec![];
    loop {
        let done = stage.store().apply_to_waiting(stage.endpoint, settle, most, after(9)).await.unwrap();
        stage.wait_until_idle().await;
        pages.push(done);
        if done < most {
            return pages;
        }
    }
}

/// Makes three waiting deliveries (one of them for its second attempt), one held, one in flight, and one at another endpoint.
async fn mixed_deliveries(stage: &mut Fixture) -> [DeliveryId; 6] {
    let other = stage.new_endpoint(stage.app).await;
    let elsewhere = stage.draft(&[other]);
    let retrying = stage.concluded(retry_at(after(60)), attempt(OutcomeClass::Http, 500)).await;
    let ids = [
        stage.waiting().await,
        retrying,
        stage.waiting().await,
        stage.one_in(DeliveryState::Held).await,
        stage.one_in(DeliveryState::InFlight).await,
        stage.publish(elsewhere).await,
    ];
    stage.recorder.take_waiting();
    ids
}

async fn states(stage: &Fixture, ids: &[DeliveryId]) -> Vec<DeliveryState> {
    let mut states = vec![];
    for id in ids {
        states.push(stage.delivery(*id).await.state);
    }
    states
}

pub(crate) async fn disabling_holds_only_waiting_deliveries(mut stage: Fixture) {
    let ids = mixed_deliveries(&mut stage).await;
    let retry_due = stage.delivery(ids[1]).await.due;
    assert_eq!(
        apply_state_all(&stage, AvailabilityChange::Disabled(Availability::DisabledHold), 2).await,
        [2, 1]
    );
    let (held, in_flight, pending) = (DeliveryState::Held, DeliveryState::InFlight, DeliveryState::Pending);
    assert_eq!(states(&stage, &ids).await, [held, held, held, held, in_flight, pending]);
    let delivery = stage.delivery(ids[1]).await;
    assert_eq!((delivery.retry_index, delivery.due), (1, retry_due), "it keeps its place and its time");
    assert!(stage.recorder.take_waiting().is_empty());
    stage.refill(stage.endpoint, 9, after(1000)).await;
    assert!(stage.recorder.take_leased().is_empty(), "what is held is never due");
}

pub(crate) async fn disabling_cancels_waiting_deliveries_if_the_contract_says_so(mut stage: Fixture) {
    let ids = mixed_deliveries(&mut stage).await;
    assert_eq!(
        apply_state_all(&stage, AvailabilityChange::Disabled(Availability::DisabledCancel), 100).await,
        [3]
    );
    for id in &ids[..3] {
        assert_eq!(stage.ended(*id).await, (DeliveryState::Cancelled, Some(EndReason::EndpointDisabled)));
        assert_eq!(stage.delivery(*id).await.finished_at, Some(after(9)));
    }
    assert_eq!(
        states(&stage, &ids[3..]).await,
        [DeliveryState::Held, DeliveryState::InFlight, DeliveryState::Pending]
    );
}

pub(crate) async fn deleting_cancels_waiting_and_held_deliveries(mut stage: Fixture) {
    let ids = mixed_deliveries(&mut stage).await;
    assert_eq!(apply_state_all(&stage, AvailabilityChange::Disabled(Availability::Deleted), 3).await, [3, 1]);
    for id in &ids[..4] {
        assert_eq!(stage.ended(*id).await, (DeliveryState::Cancelled, Some(EndReason::EndpointDeleted)));
    }
    assert_eq!(states(&stage, &ids[4..]).await, [DeliveryState::InFlight, DeliveryState::Pending]);
}

pub(crate) async fn enabling_releases_held_deliveries_and_announces_them(mut stage: Fixture) {
    let ids = mixed_deliveries(&mut stage).await;
    apply_state_all(&stage, AvailabilityChange::Disabled(Availability::DisabledHold), 100).await;
    assert_eq!(
        apply_state_all(&stage, AvailabilityChange::Enabled { gives_up_while_held: false }, 3).await,
        [3, 1]
    );
    let (pending, retrying) = (DeliveryState::Pending, DeliveryState::Retrying);
    assert_eq!(states(&stage, &ids[..4]).await, [pending, retrying, pending, pending]);
    assert_eq!(stage.delivery(ids[0]).await.due, Some(after(9)), "due when it was released");
    assert_eq!(stage.delivery(ids[1]).await.due, Some(after(60)), "or later, when its time comes");
    let told = stage.recorder.take_waiting();
    assert!(!told.is_empty() && told.iter().all(|(endpoint, _)| *endpoint == stage.endpoint));
    stage.refill(stage.endpoint, 9, after(60)).await;
    assert_eq!(stage.recorder.take_leased().len(), 4);
}

pub(crate) async fn a_held_manual_retry_that_fails_restores_the_previous_state(mut stage: Fixture) {
    let id = stage.one_in(DeliveryState::Dead).await;
    stage.request(id, DeliveryAction::Retry).await;
    let back = stage.delivery(id).await.saved_state;
    apply_state_all(&stage, AvailabilityChange::Disabled(Availability::DisabledHold), 100).await;
    stage.reopen();
    apply_state_all(&stage, AvailabilityChange::Enabled { gives_up_while_held: false }, 100).await;
    let delivery = stage.delivery(id).await;
    assert_eq!((delivery.state, delivery.saved_state), (DeliveryState::Pending, back));
}

pub(crate) async fn a_late_change_of_state_is_not_applied(mut stage: Fixture) {
    let ids = mixed_deliveries(&mut stage).await;
    let before = states(&stage, &ids).await;
    for settle in [
        AvailabilityChange::Disabled(Availability::DisabledHold),
        AvailabilityChange::Disabled(Availability::Deleted),
    ] {
        assert_eq!(apply_state_pages(&stage, settle, 100).await, [0], "it is on");
    }
    stage.set_availability(stage.endpoint, Some(WaitingWhenDisabled::Held)).await;
    assert_eq!(
        apply_state_pages(&stage, AvailabilityChange::Enabled { gives_up_while_held: false }, 100).await,
        [0],
        "it is off"
    );
    assert_eq!(states(&stage, &ids).await, before);
    assert!(stage.recorder.take_waiting().is_empty());
}

pub(crate) async fn applying_a_state_without_waiting_deliveries_does_nothing(mut stage: Fixture) {
    stage.one_in(DeliveryState::Delivered).await;
    for settle in [
        AvailabilityChange::Enabled { gives_up_while_held: false },
        AvailabilityChange::Disabled(Availability::DisabledHold),
        AvailabilityChange::Disabled(Availability::Deleted),
    ] {
        assert_eq!(apply_state_all(&stage, settle, 10).await, [0]);
    }
    assert!(stage.recorder.take_waiting().is_empty());
}

pub(crate) async fn erasing_a_payload_keeps_the_record(mut stage: Fixture) {
    let mut new = stage.one_event();
    new.dedup = vec![stage.dedup(DedupSpace::EventId, "secret")];
    let event = (*new.event).clone();
    let id = stage.publish(new).await;
    assert!(stage.store().erase_data(stage.app, event.id, None).await.unwrap());
    stage.reopen();
    let found = stage.store().find_event(stage.app, "secret".into(), None).await.unwrap().unwrap();
    assert!(found.data.is_empty());
    let data = event.data.clone();
    assert_eq!(posthaste::domain::event::Event { data, ..found }, event);
    assert_eq!(stage.delivery(id).await.state, DeliveryState::Pending);
    let mut again = stage.one_event();
    again.dedup = vec![stage.dedup(DedupSpace::EventId, "secret")];
    assert!(matches!(stage.accept(again).await, Accepted::Repeated { .. }), "its id stays taken");
}

pub(crate) async fn only_the_own_app_can_erase_a_payload(mut stage: Fixture) {
    let (stranger, new) = (stage.new_app().await, stage.one_event());
    let event = (*new.event).clone();
    stage.publish(new).await;
    assert!(!stage.store().erase_data(stranger, event.id, None).await.unwrap());
    let found = stage.store().find_event(stage.app, String::new(), Some(event.id)).await.unwrap();
    assert_eq!(found, Some(event));
    let unknown = posthaste::domain::id::EventId::from_i64(stage.next_id());
    assert!(!stage.store().erase_data(stage.app, unknown, None).await.unwrap());
}
