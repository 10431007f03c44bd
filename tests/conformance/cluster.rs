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

pub(crate) async fn a_taken_over_delivery_is_due_with_an_attempt_of_unknown_outcome(mut fixture: Fixture) {
    let id = fixture.one_in(DeliveryState::InFlight).await;
    fixture.reopen();
    assert_eq!(fixture.store().join(after(5)).await.unwrap().taken_over, 1);
    let delivery = fixture.delivery(id).await;
    assert_eq!(
        (delivery.state, delivery.due, delivery.retry_index),
        (DeliveryState::Pending, Some(after(5)), 0)
    );
    assert_eq!((delivery.attempt_count, delivery.history_len), (0, 1));
    let row = fixture.history(id).await.remove(0);
    assert_eq!((row.position, row.number, row.attempt.outcome.class), (1, None, OutcomeClass::Unknown));
    assert!(row.attempt.outcome.error.is_some() && row.attempt.started_at == after(5));
    assert_eq!(fixture.store().join(after(6)).await.unwrap().taken_over, 0, "once");
    assert_eq!(fixture.history(id).await.len(), 1);
}

pub(crate) async fn a_taken_over_retry_keeps_its_retry_index(mut fixture: Fixture) {
    let id = fixture.concluded(retry_at(after(1)), attempt(OutcomeClass::Http, 500)).await;
    fixture.lease(id, after(1)).await;
    fixture.reopen();
    fixture.store().join(after(5)).await.unwrap();
    let delivery = fixture.delivery(id).await;
    assert_eq!((delivery.state, delivery.due), (DeliveryState::Retrying, Some(after(5))));
    assert_eq!((delivery.retry_index, delivery.attempt_count, delivery.history_len), (1, 1, 2));
    let last_contract = fixture.listed(id).await.unwrap().0.last_contract;
    assert_eq!(last_contract, Some(attempt(OutcomeClass::Http, 500).contract), "the unknown one names none");
}

pub(crate) async fn a_manual_retry_that_died_with_its_node_restores_the_previous_state(mut fixture: Fixture) {
    for state in
        [DeliveryState::Retrying, DeliveryState::Dead, DeliveryState::Cancelled, DeliveryState::Expired]
    {
        let id = fixture.one_in(state).await;
        let before = fixture.delivery(id).await;
        fixture.request(id, DeliveryAction::Retry).await;
        fixture.lease(id, NOW).await;
        fixture.reopen();
        fixture.store().join(after(5)).await.unwrap();
        let (history_len, restarted_at) = (before.history_len + 1, Some(NOW));
        let expected = Delivery { history_len, restarted_at, ..before };
        assert_eq!(fixture.delivery(id).await, expected);
    }
}

pub(crate) async fn a_takeover_respects_disabled_and_deleted_endpoints(mut fixture: Fixture) {
    let off = fixture.one_in(DeliveryState::InFlight).await;
    fixture.set_availability(fixture.endpoint, Some(WaitingWhenDisabled::Held)).await;
    fixture.reopen();
    fixture.store().join(NOW).await.unwrap();
    assert_eq!(fixture.ended(off).await, (DeliveryState::Held, None));
    let gone = fixture.one_in(DeliveryState::InFlight).await;
    fixture.store().remove_endpoint(fixture.endpoint, NOW, None).await.unwrap();
    fixture.reopen();
    fixture.store().join(NOW).await.unwrap();
    assert_eq!(fixture.ended(gone).await, (DeliveryState::Cancelled, Some(EndReason::EndpointDeleted)));
}

pub(crate) async fn a_restart_changes_no_delivery_that_was_not_in_flight(mut fixture: Fixture) {
    let mut before = vec![];
    for state in DeliveryState::ALL.into_iter().filter(|state| *state != DeliveryState::InFlight) {
        let id = fixture.one_in(state).await;
        before.push(fixture.delivery(id).await);
    }
    fixture.reopen();
    assert_eq!(fixture.store().join(after(100)).await.unwrap().taken_over, 0);
    for delivery in before {
        assert_eq!(fixture.delivery(delivery.id).await, delivery);
    }
}

pub(crate) async fn the_newest_id_is_known_after_a_restart(mut fixture: Fixture) {
    let newest = async |fixture: &mut Fixture| {
        fixture.reopen();
        fixture.store().join(NOW).await.unwrap().newest_id
    };
    assert_eq!(newest(&mut fixture).await, fixture.endpoint.as_i64());
    let id = fixture.waiting().await;
    assert_eq!(newest(&mut fixture).await, id.as_i64());
    let skipped = fixture.draft(&[]);
    let event = skipped.event.id;
    fixture.accept(skipped).await;
    assert_eq!(newest(&mut fixture).await, event.as_i64());
    let app = fixture.new_app().await;
    assert_eq!(newest(&mut fixture).await, app.as_i64());
}

pub(crate) async fn an_id_is_never_given_out_again_after_its_row_was_deleted(mut fixture: Fixture) {
    let delivered = fixture.one_in(DeliveryState::Delivered).await;
    let as_new = DeliveryId::from_i64(fixture.next_id());
    let ActionResult::Made(made) =
        fixture.request(delivered, DeliveryAction::Replay { new_id: as_new, give_up_at: None }).await
    else {
        panic!()
    };
    fixture.request(made.id, DeliveryAction::Cancel).await;
    assert_eq!(fixture.request(made.id, DeliveryAction::Delete).await, ActionResult::Deleted);
    fixture.reopen();
    let newest = fixture.store().join(NOW).await.unwrap().newest_id;
    assert!(newest >= made.id.as_i64(), "even with a clock that was set back");
    let app = fixture.new_app().await;
    let endpoint = fixture.new_endpoint(app).await;
    fixture.store().remove_app(app, None).await.unwrap();
    while fixture.store().purge_deleted_apps().await.unwrap() {}
    fixture.reopen();
    assert!(fixture.store().join(NOW).await.unwrap().newest_id >= endpoint.as_i64());
}

pub(crate) async fn queues_are_found_with_their_earliest_due_time(mut fixture: Fixture) {
    assert_eq!(fixture.store().find_queues().await.unwrap(), []);
    let (second, third) = (fixture.new_endpoint(fixture.app).await, fixture.new_endpoint(fixture.app).await);
    for (endpoint, seconds) in
        [(fixture.endpoint, 9), (fixture.endpoint, 3), (third, 1), (fixture.endpoint, 5)]
    {
        let mut new = fixture.draft(&[endpoint]);
        new.deliveries[0].delivery.due = Some(after(seconds));
        fixture.publish(new).await;
    }
    for state in DeliveryState::ALL.into_iter().filter(|state| !state.is_waiting()) {
        let endpoint = fixture.endpoint;
        fixture.endpoint = second;
        fixture.one_in(state).await;
        fixture.endpoint = endpoint;
    }
    let queues = fixture.store().find_queues().await.unwrap();
    assert_eq!(
        queues,
        [(fixture.endpoint, after(3)), (third, after(1))],
        "only queues with waiting deliveries are found"
    );
}

pub(crate) async fn endpoints_with_an_unapplied_state_are_found(mut fixture: Fixture) {
    let (off, held_on) = (fixture.new_endpoint(fixture.app).await, fixture.new_endpoint(fixture.app).await);
    let (gone, applied) = (fixture.new_endpoint(fixture.app).await, fixture.new_endpoint(fixture.app).await);
    for endpoint in [fixture.endpoint, off, gone] {
        let new = fixture.draft(&[endpoint]);
        fixture.publish(new).await;
    }
    for endpoint in [held_on, applied] {
        fixture.held_at_creation(endpoint).await;
    }
    fixture.set_availability(off, Some(WaitingWhenDisabled::Held)).await;
    fixture.set_availability(applied, Some(WaitingWhenDisabled::Held)).await;
    fixture.store().remove_endpoint(gone, NOW, None).await.unwrap();
    let mut unfinished = fixture.store().endpoints_to_apply().await.unwrap();
    unfinished.sort();
    assert_eq!(unfinished, [off, held_on, gone]);
}

/// Publishes `count` events to the fixture's endpoint in calls of a thousand.
async fn publish_many(fixture: &mut Fixture, count: usize) {
    for chunk in (0..count).collect::<Vec<_>>().chunks(1000) {
        let call = chunk.iter().map(|_| fixture.one_event()).collect();
        fixture.store().accept(call).await.unwrap();
    }
}

async fn counts(fixture: &Fixture, app: AppId) -> (usize, usize) {
    let events = fixture.store().events(app, EventFilter::default(), None, 10_000).await.unwrap();
    let deliveries =
        fixture.store().deliveries(app, DeliveryListFilter::default(), None, 10_000).await.unwrap();
    (events.rows.len(), deliveries.rows.len())
}

pub(crate) async fn a_purge_removes_all_data_of_a_deleted_app_and_no_other(mut fixture: Fixture) {
    let (doomed, doomed_endpoint) = (fixture.app, fixture.endpoint);
    let key = fixture.dedup(DedupSpace::EventId, "order-1");
    let mut keyed = fixture.one_event();
    keyed.dedup = vec![key, fixture.dedup(DedupSpace::IdempotencyKey, "k")];
    let keyed_event: EventId = keyed.event.id;
    fixture.accept(keyed).await;
    let delivered = fixture.one_in(DeliveryState::Delivered).await;
    publish_many(&mut fixture, 2500).await;
    fixture.app = fixture.new_app().await;
    fixture.endpoint = fixture.new_endpoint(fixture.app).await;
    let kept = [fixture.one_in(DeliveryState::Delivered).await, fixture.waiting().await];
    // A replay is newer than every event.
    let as_new = DeliveryId::from_i64(fixture.next_id());
    let replay = DeliveryAction::Replay { new_id: as_new, give_up_at: None };
    assert!(matches!(
        fixture.store().act(doomed, delivered, replay, NOW, None).await.unwrap(),
        ActionResult::Made(_)
    ));

    fixture.store().remove_app(doomed, None).await.unwrap();
    let mut steps = 0;
    while fixture.store().purge_deleted_apps().await.unwrap() {
        steps += 1;
        fixture.reopen();
        assert!(steps < 100, "a purge that never ends");
    }
    assert!(steps > 1, "in steps, each bounded");
    assert_eq!(counts(&fixture, doomed).await, (0, 0));
    assert!(fixture.store().deliveries_of(keyed_event).await.unwrap().is_empty());
    assert!(fixture.store().delivery(doomed, as_new).await.unwrap().is_none());
    assert!(!fixture.store().find_queues().await.unwrap().iter().any(|(queue, _)| *queue == doomed_endpoint));
    assert_eq!(counts(&fixture, fixture.app).await, (2, 2));
    assert_eq!(fixture.history(kept[0]).await.len(), 1);
    let mut again = fixture.one_event();
    again.dedup = vec![key];
    assert_eq!(fixture.accept(again).await, Accepted::New, "its keys went with it");
}

pub(crate) async fn a_step_of_a_purge_is_bounded_by_deliveries_too(mut fixture: Fixture) {
    let doomed = fixture.app;
    for _ in 0..2 {
        let new = fixture.draft(&vec![fixture.endpoint; 2500]);
        fixture.accept(new).await;
    }
    fixture.store().remove_app(doomed, None).await.unwrap();
    let mut left = fixture.store().waiting_count().await.unwrap();
    assert_eq!(left, 5000);
    while fixture.store().purge_deleted_apps().await.unwrap() {
        let removed = left - fixture.store().waiting_count().await.unwrap();
        assert!(removed <= 2000, "{removed} at once");
        left -= removed;
    }
    assert_eq!((left, counts(&fixture, doomed).await), (0, (0, 0)));
}

pub(crate) async fn a_purge_without_data_ends_at_once(mut fixture: Fixture) {
    fixture.waiting().await;
    assert!(!fixture.store().purge_deleted_apps().await.unwrap());
    assert_eq!(counts(&fixture, fixture.app).await, (1, 1));
}
