//! Manual requests on a delivery: done where its state allows it, else refused with the state's name; invisible to other apps.

use crate::fixture::{Fixture, NOW, after, attempt};
use posthaste::{
    domain::{
        contract::WaitingWhenDisabled,
        delivery::{DeliveryState, EndReason, TransitionError},
        id::DeliveryId,
        outcome::OutcomeClass,
        verdict::Verdict,
    },
    store::deliveries::{ActionResult, DeliveryAction},
};

fn replay(fixture: &mut Fixture) -> DeliveryAction {
    DeliveryAction::Replay { new_id: DeliveryId::from_i64(fixture.next_id()), give_up_at: Some(after(3600)) }
}

/// Returns the states in which the request is refused. Checks that the refusal names the state and changes nothing.
async fn refusing(fixture: &mut Fixture, ask: DeliveryAction) -> Vec<DeliveryState> {
    let mut refusing = vec![];
    for state in DeliveryState::ALL {
        let id = fixture.one_in(state).await;
        let before = fixture.delivery(id).await;
        if let ActionResult::Refused(refusal) = fixture.request(id, ask).await {
            assert!(
                matches!(refusal, TransitionError::WrongState { state: named, .. } if named == state),
                "{refusal}"
            );
            assert_eq!(fixture.delivery(id).await, before);
            refusing.push(state);
        }
    }
    refusing
}

pub(crate) async fn a_retry_is_refused_in_the_specified_states(mut fixture: Fixture) {
    let refused = refusing(&mut fixture, DeliveryAction::Retry).await;
    assert_eq!(
        refused,
        [DeliveryState::Pending, DeliveryState::InFlight, DeliveryState::Held, DeliveryState::Delivered]
    );
}

pub(crate) async fn a_cancel_is_refused_in_flight_and_at_the_end(mut fixture: Fixture) {
    let refused = refusing(&mut fixture, DeliveryAction::Cancel).await;
    let ends = [
        DeliveryState::InFlight,
        DeliveryState::Delivered,
        DeliveryState::Dead,
        DeliveryState::Cancelled,
        DeliveryState::Expired,
    ];
    assert_eq!(refused, ends);
}

pub(crate) async fn only_dead_deliveries_can_be_closed(mut fixture: Fixture) {
    let refused = refusing(&mut fixture, DeliveryAction::Close).await;
    assert_eq!(refused.len(), 7);
    assert!(!refused.contains(&DeliveryState::Dead));
}

pub(crate) async fn only_ended_deliveries_can_be_deleted(mut fixture: Fixture) {
    let refused = refusing(&mut fixture, DeliveryAction::Delete).await;
    assert_eq!(
        refused,
        [DeliveryState::Pending, DeliveryState::Retrying, DeliveryState::InFlight, DeliveryState::Held]
    );
}

pub(crate) async fn only_ended_deliveries_can_be_replayed(mut fixture: Fixture) {
    let ask = replay(&mut fixture);
    let refused = refusing(&mut fixture, ask).await;
    assert_eq!(
        refused,
        [DeliveryState::Pending, DeliveryState::Retrying, DeliveryState::InFlight, DeliveryState::Held]
    );
}

pub(crate) async fn a_manual_retry_is_due_at_once_and_announced(mut fixture: Fixture) {
    for state in
        [DeliveryState::Retrying, DeliveryState::Dead, DeliveryState::Cancelled, DeliveryState::Expired]
    {
        let id = fixture.one_in(state).await;
        let ActionResult::Done(result) = fixture.request(id, DeliveryAction::Retry).await else {
            panic!("{state:?}")
        };
        assert_eq!(
            (result.state, result.due, result.next_attempt_at()),
            (DeliveryState::Pending, Some(NOW), None)
        );
        assert_eq!(result.saved_state.map(|back| back.state), Some(state));
        assert_eq!(fixture.delivery(id).await, result, "as it is stored");
        assert_eq!(fixture.recorder.take_waiting(), [(fixture.endpoint, NOW)]);
        fixture.lease(id, NOW).await;
    }
}

pub(crate) async fn a_replay_starts_a_fresh_schedule_under_the_same_id(mut fixture: Fixture) {
    let id = fixture.one_in(DeliveryState::Dead).await;
    assert_eq!(fixture.delivery(id).await.retry_index, 1);
    let ask = replay(&mut fixture);
    let ActionResult::Done(delivery) = fixture.request(id, ask).await else { panic!() };
    assert_eq!((delivery.id, delivery.state, delivery.retry_index), (id, DeliveryState::Pending, 0));
    assert_eq!((delivery.attempt_count, delivery.give_up_at), (1, Some(after(3600))));
    assert_eq!((delivery.finished_at, delivery.reason, delivery.replay_of), (None, None, None));
    assert_eq!(fixture.delivery(id).await, delivery);
    assert_eq!(fixture.recorder.take_waiting(), [(fixture.endpoint, NOW)]);
    let leased = fixture.lease(id, NOW).await;
    fixture.record(leased, Verdict::Delivered, vec![attempt(OutcomeClass::Ok, 200)]).await;
    let numbers: Vec<_> = fixture.history(id).await.iter().map(|row| row.number).collect();
    assert_eq!(numbers, [Some(1), Some(2)], "numbering continues");
}

pub(crate) async fn a_replay_of_a_delivered_one_is_a_new_delivery(mut fixture: Fixture) {
    let id = fixture.one_in(DeliveryState::Delivered).await;
    let before = fixture.delivery(id).await;
    let ask = replay(&mut fixture);
    let ActionResult::Made(made) = fixture.request(id, ask).await else { panic!() };
    assert_eq!((made.root, made.replay_of, made.state), (id, Some(id), DeliveryState::Pending));
    assert_eq!((made.event, made.attempt_count), (before.event, 0));
    assert_eq!(fixture.delivery(made.id).await, made);
    assert_eq!(fixture.delivery(id).await, before, "the old one never changes");
    assert_eq!(fixture.recorder.take_waiting(), [(fixture.endpoint, NOW)]);
    let leased = fixture.lease(made.id, NOW).await;
    fixture.record(leased, Verdict::Delivered, vec![attempt(OutcomeClass::Ok, 200)]).await;
    let ask = replay(&mut fixture);
    let ActionResult::Made(third) = fixture.request(made.id, ask).await else { panic!() };
    assert_eq!((third.root, third.replay_of), (id, Some(made.id)), "the root is the first of the chain");
    let all = fixture.store().deliveries_of(before.event).await.unwrap();
    assert_eq!(all.iter().map(|row| row.delivery.id).collect::<Vec<_>>(), [id, made.id, third.id]);
}

pub(crate) async fn cancelling_ends_a_delivery_manually(mut fixture: Fixture) {
    for state in [DeliveryState::Pending, DeliveryState::Retrying, DeliveryState::Held] {
        let id = fixture.one_in(state).await;
        let ActionResult::Done(delivery) = fixture.request(id, DeliveryAction::Cancel).await else {
            panic!("{state:?}")
        };
        assert_eq!((delivery.state, delivery.reason), (DeliveryState::Cancelled, Some(EndReason::Manual)));
        assert_eq!(fixture.delivery(id).await, delivery);
    }
    fixture.refill(fixture.endpoint, 10, after(1000)).await;
    assert!(fixture.recorder.take_leased().is_empty(), "what was cancelled is never sent");
}

pub(crate) async fn closing_keeps_when_it_died(mut fixture: Fixture) {
    let id = fixture.one_in(DeliveryState::Dead).await;
    let died = fixture.delivery(id).await.finished_at;
    assert!(matches!(fixture.request(id, DeliveryAction::Close).await, ActionResult::Done(_)));
    assert_eq!(fixture.ended(id).await, (DeliveryState::Dead, Some(EndReason::Closed)));
    assert_eq!(fixture.delivery(id).await.finished_at, died);
    assert!(
        matches!(fixture.request(id, DeliveryAction::Retry).await, ActionResult::Done(_)),
        "closed is not deleted"
    );
}

pub(crate) async fn deleting_removes_a_delivery_and_its_history_and_nothing_else(mut fixture: Fixture) {
    let (id, other) = (fixture.one_in(DeliveryState::Dead).await, fixture.one_in(DeliveryState::Dead).await);
    let event = fixture.delivery(id).await.event;
    assert_eq!(fixture.request(id, DeliveryAction::Delete).await, ActionResult::Deleted);
    assert!(fixture.listed(id).await.is_none());
    assert_eq!(fixture.request(id, DeliveryAction::Delete).await, ActionResult::Absent);
    assert!(fixture.store().find_event(fixture.app, String::new(), Some(event)).await.unwrap().is_some());
    assert_eq!(fixture.history(other).await.len(), 1);
}

pub(crate) async fn another_app_cannot_tell_that_a_delivery_exists(mut fixture: Fixture) {
    let stranger = fixture.new_app().await;
    for state in DeliveryState::ALL {
        let id = fixture.one_in(state).await;
        let before = fixture.delivery(id).await;
        let unknown = DeliveryId::from_i64(fixture.next_id());
        for ask in [
            DeliveryAction::Retry,
            replay(&mut fixture),
            DeliveryAction::Cancel,
            DeliveryAction::Close,
            DeliveryAction::Delete,
        ] {
            let result = fixture.store().act(stranger, id, ask, NOW, None).await.unwrap();
            assert_eq!(result, ActionResult::Absent, "{ask:?} of {state:?}");
            assert_eq!(fixture.request(unknown, ask).await, ActionResult::Absent);
        }
        assert_eq!(fixture.delivery(id).await, before);
    }
}

pub(crate) async fn a_delivery_to_a_deleted_endpoint_cannot_be_retried_or_replayed(mut fixture: Fixture) {
    let mut ids = vec![];
    for state in [DeliveryState::Retrying, DeliveryState::Dead, DeliveryState::Delivered] {
        ids.push((state, fixture.one_in(state).await));
    }
    fixture.store().remove_endpoint(fixture.endpoint, NOW, None).await.unwrap();
    for (state, id) in ids {
        let ask = if state == DeliveryState::Retrying { DeliveryAction::Retry } else { replay(&mut fixture) };
        assert_eq!(
            fixture.request(id, ask).await,
            ActionResult::Refused(TransitionError::EndpointDeleted),
            "{state:?}"
        );
        assert_eq!(fixture.delivery(id).await.state, state);
    }
    assert!(fixture.recorder.take_waiting().is_empty());
}

pub(crate) async fn a_manual_request_to_a_disabled_endpoint_is_held(mut fixture: Fixture) {
    for off in [WaitingWhenDisabled::Held, WaitingWhenDisabled::Cancelled] {
        let (dead, delivered) =
            (fixture.one_in(DeliveryState::Dead).await, fixture.one_in(DeliveryState::Delivered).await);
        let expired = fixture.one_in(DeliveryState::Expired).await;
        fixture.set_availability(fixture.endpoint, Some(off)).await;
        assert!(matches!(fixture.request(dead, DeliveryAction::Retry).await, ActionResult::Done(_)));
        assert_eq!(fixture.delivery(dead).await.state, DeliveryState::Held);
        let (one, two) = (replay(&mut fixture), replay(&mut fixture));
        assert!(
            matches!(fixture.request(expired, one).await, ActionResult::Done(held) if held.state == DeliveryState::Held)
        );
        assert!(
            matches!(fixture.request(delivered, two).await, ActionResult::Made(held) if held.state == DeliveryState::Held)
        );
        assert!(fixture.recorder.take_waiting().is_empty());
        fixture.set_availability(fixture.endpoint, None).await;
    }
}
