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
async fn apply_state_all(fixture: &Fixture, settle: AvailabilityChange, most: usize) -> Vec<usize> {
    match settle {
        AvailabilityChange::Enabled { .. } => fixture.set_availability(fixture.endpoint, None).await,
        AvailabilityChange::Disabled(Availability::Deleted) => {
            assert!(fixture.store().remove_endpoint(fixture.endpoint, after(9), None).await.unwrap());
        }
        AvailabilityChange::Disabled(Availability::DisabledCancel) => {
            fixture.set_availability(fixture.endpoint, Some(WaitingWhenDisabled::Cancelled)).await;
        }
        AvailabilityChange::Disabled(_) => {
            fixture.set_availability(fixture.endpoint, Some(WaitingWhenDisabled::Held)).await;
        }
    }
    apply_state_pages(fixture, settle, most).await
}

async fn apply_state_pages(fixture: &Fixture, settle: AvailabilityChange, most: usize) -> Vec<usize> {
    let mut pages = vec![];
    loop {
        let done = fixture.store().apply_to_waiting(fixture.endpoint, settle, most, after(9)).await.unwrap();
        fixture.wait_until_idle().await;
        pages.push(done);
        if done < most {
            return pages;
        }
    }
}

/// Makes three waiting deliveries (one of them for its second attempt), one held, one in flight, and one at another endpoint.
async fn mixed_deliveries(fixture: &mut Fixture) -> [DeliveryId; 6] {
    let other = fixture.new_endpoint(fixture.app).await;
    let elsewhere = fixture.draft(&[other]);
    let retrying = fixture.concluded(retry_at(after(60)), attempt(OutcomeClass::Http, 500)).await;
    let ids = [
        fixture.waiting().await,
        retrying,
        fixture.waiting().await,
        fixture.one_in(DeliveryState::Held).await,
        fixture.one_in(DeliveryState::InFlight).await,
        fixture.publish(elsewhere).await,
    ];
    fixture.recorder.take_waiting();
    ids
}

async fn states(fixture: &Fixture, ids: &[DeliveryId]) -> Vec<DeliveryState> {
    let mut states = vec![];
    for id in ids {
        states.push(fixture.delivery(*id).await.state);
    }
    states
}

pub(crate) async fn disabling_holds_only_waiting_deliveries(mut fixture: Fixture) {
    let ids = mixed_deliveries(&mut fixture).await;
    let retry_due = fixture.delivery(ids[1]).await.due;
    assert_eq!(
        apply_state_all(&fixture, AvailabilityChange::Disabled(Availability::DisabledHold), 2).await,
        [2, 1]
    );
    let (held, in_flight, pending) = (DeliveryState::Held, DeliveryState::InFlight, DeliveryState::Pending);
    assert_eq!(states(&fixture, &ids).await, [held, held, held, held, in_flight, pending]);
    let delivery = fixture.delivery(ids[1]).await;
    assert_eq!((delivery.retry_index, delivery.due), (1, retry_due), "it keeps its place and its time");
    assert!(fixture.recorder.take_waiting().is_empty());
    fixture.refill(fixture.endpoint, 9, after(1000)).await;
    assert!(fixture.recorder.take_leased().is_empty(), "what is held is never due");
}

pub(crate) async fn disabling_cancels_waiting_deliveries_if_the_contract_says_so(mut fixture: Fixture) {
    let ids = mixed_deliveries(&mut fixture).await;
    assert_eq!(
        apply_state_all(&fixture, AvailabilityChange::Disabled(Availability::DisabledCancel), 100).await,
        [3]
    );
    for id in &ids[..3] {
        assert_eq!(fixture.ended(*id).await, (DeliveryState::Cancelled, Some(EndReason::EndpointDisabled)));
        assert_eq!(fixture.delivery(*id).await.finished_at, Some(after(9)));
    }
    assert_eq!(
        states(&fixture, &ids[3..]).await,
        [DeliveryState::Held, DeliveryState::InFlight, DeliveryState::Pending]
    );
}

pub(crate) async fn deleting_cancels_waiting_and_held_deliveries(mut fixture: Fixture) {
    let ids = mixed_deliveries(&mut fixture).await;
    assert_eq!(
        apply_state_all(&fixture, AvailabilityChange::Disabled(Availability::Deleted), 3).await,
        [3, 1]
    );
    for id in &ids[..4] {
        assert_eq!(fixture.ended(*id).await, (DeliveryState::Cancelled, Some(EndReason::EndpointDeleted)));
    }
    assert_eq!(states(&fixture, &ids[4..]).await, [DeliveryState::InFlight, DeliveryState::Pending]);
}

pub(crate) async fn enabling_releases_held_deliveries_and_announces_them(mut fixture: Fixture) {
    let ids = mixed_deliveries(&mut fixture).await;
    apply_state_all(&fixture, AvailabilityChange::Disabled(Availability::DisabledHold), 100).await;
    assert_eq!(
        apply_state_all(&fixture, AvailabilityChange::Enabled { gives_up_while_held: false }, 3).await,
        [3, 1]
    );
    let (pending, retrying) = (DeliveryState::Pending, DeliveryState::Retrying);
    assert_eq!(states(&fixture, &ids[..4]).await, [pending, retrying, pending, pending]);
    assert_eq!(fixture.delivery(ids[0]).await.due, Some(after(9)), "due when it was released");
    assert_eq!(fixture.delivery(ids[1]).await.due, Some(after(60)), "or later, when its time comes");
    let waiting = fixture.recorder.take_waiting();
    assert!(!waiting.is_empty() && waiting.iter().all(|(endpoint, _)| *endpoint == fixture.endpoint));
    fixture.refill(fixture.endpoint, 9, after(60)).await;
    assert_eq!(fixture.recorder.take_leased().len(), 4);
}

pub(crate) async fn a_held_manual_retry_that_fails_restores_the_previous_state(mut fixture: Fixture) {
    let id = fixture.one_in(DeliveryState::Dead).await;
    fixture.request(id, DeliveryAction::Retry).await;
    let back = fixture.delivery(id).await.saved_state;
    apply_state_all(&fixture, AvailabilityChange::Disabled(Availability::DisabledHold), 100).await;
    fixture.reopen();
    apply_state_all(&fixture, AvailabilityChange::Enabled { gives_up_while_held: false }, 100).await;
    let delivery = fixture.delivery(id).await;
    assert_eq!((delivery.state, delivery.saved_state), (DeliveryState::Pending, back));
}

pub(crate) async fn a_late_change_of_state_is_not_applied(mut fixture: Fixture) {
    let ids = mixed_deliveries(&mut fixture).await;
    let before = states(&fixture, &ids).await;
    for settle in [
        AvailabilityChange::Disabled(Availability::DisabledHold),
        AvailabilityChange::Disabled(Availability::Deleted),
    ] {
        assert_eq!(apply_state_pages(&fixture, settle, 100).await, [0], "it is on");
    }
    fixture.set_availability(fixture.endpoint, Some(WaitingWhenDisabled::Held)).await;
    assert_eq!(
        apply_state_pages(&fixture, AvailabilityChange::Enabled { gives_up_while_held: false }, 100).await,
        [0],
        "it is off"
    );
    assert_eq!(states(&fixture, &ids).await, before);
    assert!(fixture.recorder.take_waiting().is_empty());
}

pub(crate) async fn applying_a_state_without_waiting_deliveries_does_nothing(mut fixture: Fixture) {
    fixture.one_in(DeliveryState::Delivered).await;
    for settle in [
        AvailabilityChange::Enabled { gives_up_while_held: false },
        AvailabilityChange::Disabled(Availability::DisabledHold),
        AvailabilityChange::Disabled(Availability::Deleted),
    ] {
        assert_eq!(apply_state_all(&fixture, settle, 10).await, [0]);
    }
    assert!(fixture.recorder.take_waiting().is_empty());
}

pub(crate) async fn erasing_a_payload_keeps_the_record(mut fixture: Fixture) {
    let mut new = fixture.one_event();
    new.dedup = vec![fixture.dedup(DedupSpace::EventId, "secret")];
    let event = (*new.event).clone();
    let id = fixture.publish(new).await;
    assert!(fixture.store().erase_data(fixture.app, event.id, None).await.unwrap());
    fixture.reopen();
    let found = fixture.store().find_event(fixture.app, "secret".into(), None).await.unwrap().unwrap();
    assert!(found.data.is_empty());
    let data = event.data.clone();
    assert_eq!(posthaste::domain::event::Event { data, ..found }, event);
    assert_eq!(fixture.delivery(id).await.state, DeliveryState::Pending);
    let mut again = fixture.one_event();
    again.dedup = vec![fixture.dedup(DedupSpace::EventId, "secret")];
    assert!(matches!(fixture.accept(again).await, Accepted::Repeated { .. }), "its id stays taken");
}

pub(crate) async fn only_the_own_app_can_erase_a_payload(mut fixture: Fixture) {
    let (stranger, new) = (fixture.new_app().await, fixture.one_event());
    let event = (*new.event).clone();
    fixture.publish(new).await;
    assert!(!fixture.store().erase_data(stranger, event.id, None).await.unwrap());
    let found = fixture.store().find_event(fixture.app, String::new(), Some(event.id)).await.unwrap();
    assert_eq!(found, Some(event));
    let unknown = posthaste::domain::id::EventId::from_i64(fixture.next_id());
    assert!(!fixture.store().erase_data(fixture.app, unknown, None).await.unwrap());
}
