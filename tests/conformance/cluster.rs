//! Joining, taking over the deliveries of a dead node, finding work, and purging the data of deleted apps.

use crate::fixture::{Fixture, NOW, after, attempt, retry_at};
use posthaste::{
    domain::{
        contract::WaitingWhenDisabled,
        delivery::{Delivery, DeliveryState, EndReason},
        event::DedupSpace,
        id::{AppId, DeliveryId, EventId},
        outcome::OutcomeClass,
    },
    store::{
        deliveries::{Accepted, ActionResult, DeliveryAction},
        queries::{DeliveryListFilter, EventFilter},
    },
};

pub(crate) async fn a_taken_over_delivery_is_due_with_an_attempt_of_unknown_outcome(mut stage: Fixture) {
    let id = stage.one_in(DeliveryState::InFlight).await;
    stage.reopen();
    assert_eq!(stage.store().join(after(5)).await.unwrap().taken_over, 1);
    let delivery = stage.delivery(id).await;
    assert_eq!(
        (delivery.state, delivery.due, delivery.retry_index),
        (DeliveryState::Pending, Some(after(5)), 0)
    );
    assert_eq!((delivery.attempt_count, delivery.history_len), (0, 1));
    let row = stage.history(id).await.remove(0);
    assert_eq!((row.position, row.number, row.attempt.outcome.class), (1, None, OutcomeClass::Unknown));
    assert!(row.attempt.outcome.error.is_some() && row.attempt.started_at == after(5));
    assert_eq!(stage.store().join(after(6)).await.unwrap().taken_over, 0, "once");
    assert_eq!(stage.history(id).await.len(), 1);
}

pub(crate) async fn a_taken_over_retry_keeps_its_retry_index(mut stage: Fixture) {
    let id = stage.concluded(retry_at(after(1)), attempt(OutcomeClass::Http, 500)).await;
    stage.lease(id, after(1)).await;
    stage.reopen();
    stage.store().join(after(5)).await.unwrap();
    let delivery = stage.delivery(id).await;
    assert_eq!((delivery.state, delivery.due), (DeliveryState::Retrying, Some(after(5))));
    assert_eq!((delivery.retry_index, delivery.attempt_count, delivery.history_len), (1, 1, 2));
    let last_contract = stage.listed(id).await.unwrap().0.last_contract;
    assert_eq!(last_contract, Some(attempt(OutcomeClass::Http, 500).contract), "the unknown one names none");
}

pub(crate) async fn a_manual_retry_that_died_with_its_node_restores_the_previous_state(mut stage: Fixture) {
    for state in
        [DeliveryState::Retrying, DeliveryState::Dead, DeliveryState::Cancelled, DeliveryState::Expired]
    {
        let id = stage.one_in(state).await;
        let before = stage.delivery(id).await;
        stage.request(id, DeliveryAction::Retry).await;
        stage.lease(id, NOW).await;
        stage.reopen();
        stage.store().join(after(5)).await.unwrap();
        let (history_len, restarted_at) = (before.history_len + 1, Some(NOW));
        let expected = Delivery { history_len, restarted_at, ..before };
        assert_eq!(stage.delivery(id).await, expected);
    }
}

pub(crate) async fn a_takeover_respects_disabled_and_deleted_endpoints(mut stage: Fixture) {
    let off = stage.one_in(DeliveryState::InFlight).await;
    stage.set_availability(stage.endpoint, Some(WaitingWhenDisabled::Held)).await;
    stage.reopen();
    stage.store().join(NOW).await.unwrap();
    assert_eq!(stage.ended(off).await, (DeliveryState::Held, None));
    let gone = stage.one_in(DeliveryState::InFlight).await;
    stage.store().remove_endpoint(stage.endpoint, NOW, None).await.unwrap();
    stage.reopen();
    stage.store().join(NOW).await.unwrap();
    assert_eq!(stage.ended(gone).await, (DeliveryState::Cancelled, Some(EndReason::EndpointDeleted)));
}

pub(crate) async fn a_restart_changes_no_delivery_that_was_not_in_flight(mut stage: Fixture) {
    let mut before = vec![];
    for state in DeliveryState::ALL.into_iter().filter(|state| *state != DeliveryState::InFlight) {
        let id = stage.one_in(state).await;
        before.push(stage.delivery(id).await);
    }
    stage.reopen();
    assert_eq!(stage.store().join(after(100)).await.unwrap().taken_over, 0);
    for delivery in before {
        assert_eq!(stage.delivery(delivery.id).await, delivery);
    }
}

pub(crate) async fn the_newest_id_is_known_after_a_restart(mut stage: Fixture) {
    let newest = async |stage: &mut Fixture| {
        stage.reopen();
        stage.store().join(NOW).await.unwrap().newest_id
    };
    assert_eq!(newest(&mut stage).await, stage.endpoint.as_i64());
    let id = stage.waiting().await;
    assert_eq!(newest(&mut stage).await, id.as_i64());
    let skipped = stage.draft(&[]);
    let event = skipped.event.id;
    stage.accept(skipped).await;
    assert_eq!(newest(&mut stage).await, event.as_i64());
    let app = stage.new_app().await;
    assert_eq!(newest(&mut stage).await, app.as_i64());
}

pub(crate) async fn an_id_is_never_given_out_again_after_its_row_was_deleted(mut stage: Fixture) {
    let delivered = stage.one_in(DeliveryState::Delivered).await;
    let as_new = DeliveryId::from_i64(stage.next_id());
    let ActionResult::Made(made) =
        stage.request(delivered, DeliveryAction::Replay { new_id: as_new, give_up_at: None }).await
    else {
        panic!()
    };
    stage.request(made.id, DeliveryAction::Cancel).await;
    assert_eq!(stage.request(made.id, DeliveryAction::Delete).await, ActionResult::Deleted);
    stage.reopen();
    let newest = stage.store().join(NOW).await.unwrap().newest_id;
    assert!(newest >= made.id.as_i64(), "even with a clock that was set back");
    let app = stage.new_app().await;
    let endpoint = stage.new_endpoint(app).await;
    stage.store().remove_app(app, None).await.unwrap();
    while stage.store().purge_deleted_apps().await.unwrap() {}
    stage.reopen();
    assert!(stage.store().join(NOW).await.unwrap().newest_id >= endpoint.as_i64());
}

pub(crate) async fn queues_are_found_with_their_earliest_due_time(mut stage: Fixture) {
    assert_eq!(stage.store().find_queues().await.unwrap(), []);
    let (second, third) = (stage.new_endpoint(stage.app).await, stage.new_endpoint(stage.app).await);
    for (endpoint, seconds) in [(stage.endpoint, 9), (stage.endpoint, 3), (third, 1), (stage.endpoint, 5)] {
        let mut new = stage.draft(&[endpoint]);
        new.deliveries[0].delivery.due = Some(after(seconds));
        stage.publish(new).await;
    }
    for state in DeliveryState::ALL.into_iter().filter(|state| !state.is_waiting()) {
        let endpoint = stage.endpoint;
        stage.endpoint = second;
        stage.one_in(state).await;
        stage.endpoint = endpoint;
    }
    let queues = stage.store().find_queues().await.unwrap();
    assert_eq!(
        queues,
        [(stage.endpoint, after(3)), (third, after(1))],
        "only queues with waiting deliveries are found"
    );
}

pub(crate) async fn endpoints_with_an_unapplied_state_are_found(mut stage: Fixture) {
    let (off, held_on) = (stage.new_endpoint(stage.app).await, stage.new_endpoint(stage.app).await);
    let (gone, applied) = (stage.new_endpoint(stage.app).await, stage.new_endpoint(stage.app).await);
    for endpoint in [stage.endpoint, off, gone] {
        let new = stage.draft(&[endpoint]);
        stage.publish(new).await;
    }
    for endpoint in [held_on, applied] {
        stage.held_at_creation(endpoint).await;
    }
    stage.set_availability(off, Some(WaitingWhenDisabled::Held)).await;
    stage.set_availability(applied, Some(WaitingWhenDisabled::Held)).await;
    stage.store().remove_endpoint(gone, NOW, None).await.unwrap();
    let mut unfinished = stage.store().endpoints_to_apply().await.unwrap();
    unfinished.sort();
    assert_eq!(unfinished, [off, held_on, gone]);
}

/// Publishes `count` events to the stage's endpoint in calls of a thousand.
async fn publish_many(stage: &mut Fixture, count: usize) {
    for chunk in (0..count).collect::<Vec<_>>().chunks(1000) {
        let call = chunk.iter().map(|_| stage.one_event()).collect();
        stage.store().accept(call).await.unwrap();
    }
}

async fn counts(stage: &Fixture, app: AppId) -> (usize, usize) {
    let events = stage.store().events(app, EventFilter::default(), None, 10_000).await.unwrap();
    let deliveries =
        stage.store().deliveries(app, DeliveryListFilter::default(), None, 10_000).await.unwrap();
    (events.rows.len(), deliveries.rows.len())
}

pub(crate) async fn a_purge_removes_all_data_of_a_deleted_app_and_no_other(mut stage: Fixture) {
    let (doomed, doomed_endpoint) = (stage.app, stage.endpoint);
    let key = stage.dedup(DedupSpace::EventId, "order-1");
    let mut keyed = stage.one_event();
    keyed.dedup = vec![key, stage.dedup(DedupSpace::IdempotencyKey, "k")];
    let keyed_event: EventId = keyed.event.id;
    stage.accept(keyed).await;
    let delivered = stage.one_in(DeliveryState::Delivered).await;
    publish_many(&mut stage, 2500).await;
    stage.app = stage.new_app().await;
    stage.endpoint = stage.new_endpoint(stage.app).await;
    let kept = [stage.one_in(DeliveryState::Delivered).await, stage.waiting().await];
    // A replay is newer than every event.
    let as_new = DeliveryId::from_i64(stage.next_id());
    let replay = DeliveryAction::Replay { new_id: as_new, give_up_at: None };
    assert!(matches!(
        stage.store().act(doomed, delivered, replay, NOW, None).await.unwrap(),
        ActionResult::Made(_)
    ));

    stage.store().remove_app(doomed, None).await.unwrap();
    let mut steps = 0;
    while stage.store().purge_deleted_apps().await.unwrap() {
        steps += 1;
        stage.reopen();
        assert!(steps < 100, "a purge that never ends");
    }
    assert!(steps > 1, "in steps, each bounded");
    assert_eq!(counts(&stage, doomed).await, (0, 0));
    assert!(stage.store().deliveries_of(keyed_event).await.unwrap().is_empty());
    assert!(stage.store().delivery(doomed, as_new).await.unwrap().is_none());
    assert!(!stage.store().find_queues().await.unwrap().iter().any(|(queue, _)| *queue == doomed_endpoint));
    assert_eq!(counts(&stage, stage.app).await, (2, 2));
    assert_eq!(stage.history(kept[0]).await.len(), 1);
    let mut again = stage.one_event();
    again.dedup = vec![key];
    assert_eq!(stage.accept(again).await, Accepted::New, "its keys went with it");
}

pub(crate) async fn a_step_of_a_purge_is_bounded_by_deliveries_too(mut stage: Fixture) {
    let doomed = stage.app;
    for _ in 0..2 {
        let new = stage.draft(&vec![stage.endpoint; 2500]);
        stage.accept(new).await;
    }
    stage.store().remove_app(doomed, None).await.unwrap();
    let mut left = stage.store().waiting_count().await.unwrap();
    assert_eq!(left, 5000);
    while stage.store().purge_deleted_apps().await.unwrap() {
        let removed = left - stage.store().waiting_count().await.unwrap();
        assert!(removed <= 2000, "{removed} at once");
        left -= removed;
    }
    assert_eq!((left, counts(&stage, doomed).await), (0, (0, 0)));
}

pub(crate) async fn a_purge_without_data_ends_at_once(mut stage: Fixture) {
    stage.waiting().await;
    assert!(!stage.store().purge_deleted_apps().await.unwrap());
    assert_eq!(counts(&stage, stage.app).await, (1, 1));
}
