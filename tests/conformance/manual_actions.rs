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

fn replay(stage: &mut Fixture) -> DeliveryAction {
    DeliveryAction::Replay { new_id: DeliveryId::from_i64(stage.next_id()), give_up_at: Some(after(3600)) }
}

/// Returns the states in which the request is refused. Checks that the refusal names the state and changes nothing.
async fn refusing(stage: &mut Fixture, ask: DeliveryAction) -> Vec<DeliveryState> {
    let mut refusing = vec![];
    for state in DeliveryState::ALL {
        let id = stage.one_in(state).await;
        let before = stage.delivery(id).await;
        if let ActionResult::Refused(refusal) = stage.request(id, ask).await {
            assert!(
                matches!(refusal, TransitionError::WrongState { state: named, .. } if named == state),
                "{refusal}"
            );
            assert_eq!(stage.delivery(id).await, before);
            refusing.push(state);
        }
    }
    refusing
}

pub(crate) async fn a_retry_is_refused_in_the_specified_states(mut stage: Fixture) {
    let refused = refusing(&mut stage, DeliveryAction::Retry).await;
    assert_eq!(
        refused,
        [DeliveryState::Pending, DeliveryState::InFlight, DeliveryState::Held, DeliveryState::Delivered]
    );
}

pub(crate) async fn a_cancel_is_refused_in_flight_and_at_the_end(mut stage: Fixture) {
    let refused = refusing(&mut stage, DeliveryAction::Cancel).await;
    let ends = [
        DeliveryState::InFlight,
        DeliveryState::Delivered,
        DeliveryState::Dead,
        DeliveryState::Cancelled,
        DeliveryState::Expired,
    ];
    assert_eq!(refused, ends);
}

pub(crate) async fn only_dead_deliveries_can_be_closed(mut stage: Fixture) {
    let refused = refusing(&mut stage, DeliveryAction::Close).await;
    assert_eq!(refused.len(), 7);
    assert!(!refused.contains(&DeliveryState::Dead));
}

pub(crate) async fn only_ended_deliveries_can_be_deleted(mut stage: Fixture) {
    let refused = refusing(&mut stage, DeliveryAction::Delete).await;
    assert_eq!(
        refused,
        [DeliveryState::Pending, DeliveryState::Retrying, DeliveryState::InFlight, DeliveryState::Held]
    );
}

pub(crate) async fn only_ended_deliveries_can_be_replayed(mut stage: Fixture) {
    let ask = replay(&mut stage);
    let refused = refusing(&mut stage, ask).await;
    assert_eq!(
        refused,
        [DeliveryState::Pending, DeliveryState::Retrying, DeliveryState::InFlight, DeliveryState::Held]
    );
}

pub(crate) async fn a_manual_retry_is_due_at_once_and_announced(mut stage: Fixture) {
    for state in
        [DeliveryState::Retrying, DeliveryState::Dead, DeliveryState::Cancelled, DeliveryState::Expired]
    {
        let id = stage.one_in(state).await;
        let ActionResult::Done(asked) = stage.request(id, DeliveryAction::Retry).await else {
            panic!("{state:?}")
        };
        assert_eq!(
            (asked.state, asked.due, asked.next_attempt_at()),
            (DeliveryState::Pending, Some(NOW), None)
        );
        assert_eq!(asked.saved_state.map(|back| back.state), Some(state));
        assert_eq!(stage.delivery(id).await, asked, "as it is stored");
        assert_eq!(stage.recorder.take_waiting(), [(stage.endpoint, NOW)]);
        stage.lease(id, NOW).await;
    }
}

pub(crate) async fn a_replay_starts_a_fresh_schedule_under_the_same_id(mut stage: Fixture) {
    let id = stage.one_in(DeliveryState::Dead).await;
    assert_eq!(stage.delivery(id).await.retry_index, 1);
    let ask = replay(&mut stage);
    let ActionResult::Done(delivery) = stage.request(id, ask).await else { panic!() };
    assert_eq!((delivery.id, delivery.state, delivery.retry_index), (id, DeliveryState::Pending, 0));
    assert_eq!((delivery.attempt_count, delivery.give_up_at), (1, Some(after(3600))));
    assert_eq!((delivery.finished_at, delivery.reason, delivery.replay_of), (None, None, None));
    assert_eq!(stage.delivery(id).await, delivery);
    assert_eq!(stage.recorder.take_waiting(), [(stage.endpoint, NOW)]);
    let leased = stage.lease(id, NOW).await;
    stage.record(leased, Verdict::Delivered, vec![attempt(OutcomeClass::Ok, 200)]).await;
    let numbers: Vec<_> = stage.history(id).await.iter().map(|row| row.number).collect();
    assert_eq!(numbers, [Some(1), Some(2)], "numbering continues");
}

pub(crate) async fn a_replay_of_a_delivered_one_is_a_new_delivery(mut stage: Fixture) {
    let id = stage.one_in(DeliveryState::Delivered).await;
    let before = stage.delivery(id).await;
    let ask = replay(&mut stage);
    let ActionResult::Made(made) = stage.request(id, ask).await else { panic!() };
    assert_eq!((made.root, made.replay_of, made.state), (id, Some(id), DeliveryState::Pending));
    assert_eq!((made.event, made.attempt_count), (before.event, 0));
    assert_eq!(stage.delivery(made.id).await, made);
    assert_eq!(stage.delivery(id).await, before, "the old one never changes");
    assert_eq!(stage.recorder.take_waiting(), [(stage.endpoint, NOW)]);
    let leased = stage.lease(made.id, NOW).await;
    stage.record(leased, Verdict::Delivered, vec![attempt(OutcomeClass::Ok, 200)]).await;
    let ask = replay(&mut stage);
    let ActionResult::Made(third) = stage.request(made.id, ask).await else { panic!() };
    assert_eq!((third.root, third.replay_of), (id, Some(made.id)), "the root is the first of the chain");
    let all = stage.store().deliveries_of(before.event).await.unwrap();
    assert_eq!(all.iter().map(|row| row.delivery.id).collect::<Vec<_>>(), [id, made.id, third.id]);
}

pub(crate) async fn cancelling_ends_a_delivery_manually(mut stage: Fixture) {
    for state in [DeliveryState::Pending, DeliveryState::Retrying, DeliveryState::Held] {
        let id = stage.one_in(state).await;
        let ActionResult::Done(delivery) = stage.request(id, DeliveryAction::Cancel).await else {
            panic!("{state:?}")
        };
        assert_eq!((delivery.state, delivery.reason), (DeliveryState::Cancelled, Some(EndReason::Manual)));
        assert_eq!(stage.delivery(id).await, delivery);
    }
    stage.refill(stage.endpoint, 10, after(1000)).await;
    assert!(stage.recorder.take_leased().is_empty(), "what was cancelled is never sent");
}

pub(crate) async fn closing_keeps_when_it_died(mut stage: Fixture) {
    let id = stage.one_in(DeliveryState::Dead).await;
    let died = stage.delivery(id).await.finished_at;
    assert!(matches!(stage.request(id, DeliveryAction::Close).await, ActionResult::Done(_)));
    assert_eq!(stage.ended(id).await, (DeliveryState::Dead, Some(EndReason::Closed)));
    assert_eq!(stage.delivery(id).await.finished_at, died);
    assert!(
        matches!(stage.request(id, DeliveryAction::Retry).await, ActionResult::Done(_)),
        "closed is not deleted"
    );
}

pub(crate) async fn deleting_removes_a_delivery_and_its_history_and_nothing_else(mut stage: Fixture) {
    let (id, other) = (stage.one_in(DeliveryState::Dead).await, stage.one_in(DeliveryState::Dead).await);
    let event = stage.delivery(id).await.event;
    assert_eq!(stage.request(id, DeliveryAction::Delete).await, ActionResult::Deleted);
    assert!(stage.listed(id).await.is_none());
    assert_eq!(stage.request(id, DeliveryAction::Delete).await, ActionResult::Absent);
    assert!(stage.store().find_event(stage.app, String::new(), Some(event)).await.unwrap().is_some());
    assert_eq!(stage.history(other).await.len(), 1);
}

pub(crate) async fn another_app_cannot_tell_that_a_delivery_exists(mut stage: Fixture) {
    let stranger = stage.new_app().await;
    for state in DeliveryState::ALL {
        let id = stage.one_in(state).await;
        let before = stage.delivery(id).await;
        let unknown = DeliveryId::from_i64(stage.next_id());
        for ask in [
            DeliveryAction::Retry,
            replay(&mut stage),
            DeliveryAction::Cancel,
            DeliveryAction::Close,
            DeliveryAction::Delete,
        ] {
            let asked = stage.store().act(stranger, id, ask, NOW, None).await.unwrap();
            assert_eq!(asked, ActionResult::Absent, "{ask:?} of {state:?}");
            assert_eq!(stage.request(unknown, ask).await, ActionResult::Absent);
        }
        assert_eq!(stage.delivery(id).await, before);
    }
}

pub(crate) async fn a_delivery_to_a_deleted_endpoint_cannot_be_retried_or_replayed(mut stage: Fixture) {
    let mut ids = vec![];
    for state in [DeliveryState::Retrying, DeliveryState::Dead, DeliveryState::Delivered] {
        ids.push((state, stage.one_in(state).await));
    }
    stage.store().remove_endpoint(stage.endpoint, NOW, None).await.unwrap();
    for (state, id) in ids {
        let ask = if state == DeliveryState::Retrying { DeliveryAction::Retry } else { replay(&mut stage) };
        assert_eq!(
            stage.request(id, ask).await,
            ActionResult::Refused(TransitionError::EndpointDeleted),
            "{state:?}"
        );
        assert_eq!(stage.delivery(id).await.state, state);
    }
    assert!(stage.recorder.take_waiting().is_empty());
}

pub(crate) async fn a_manual_request_to_a_disabled_endpoint_is_held(mut stage: Fixture) {
    for off in [WaitingWhenDisabled::Held, WaitingWhenDisabled::Cancelled] {
        let (dead, delivered) =
            (stage.one_in(DeliveryState::Dead).await, stage.one_in(DeliveryState::Delivered).await);
        let expired = stage.one_in(DeliveryState::Expired).await;
        stage.set_availability(stage.endpoint, Some(off)).await;
        assert!(matches!(stage.request(dead, DeliveryAction::Retry).await, ActionResult::Done(_)));
        assert_eq!(stage.delivery(dead).await.state, DeliveryState::Held);
        let (one, two) = (replay(&mut stage), replay(&mut stage));
        assert!(
            matches!(stage.request(expired, one).await, ActionResult::Done(held) if held.state == DeliveryState::Held)
        );
        assert!(
            matches!(stage.request(delivered, two).await, ActionResult::Made(held) if held.state == DeliveryState::Held)
        );
        assert!(stage.recorder.take_waiting().is_empty());
        stage.set_availability(stage.endpoint, None).await;
    }
}
