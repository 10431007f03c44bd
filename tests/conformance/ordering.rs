//! Ordering: one delivery of a group at a time in every case, and never a group without a head.

use crate::{
    fixture::{Fixture, NOW, after, attempt, dead, retry_at},
    retention,
};
use posthaste::{
    domain::{
        contract::WaitingWhenDisabled,
        delivery::{Availability, Delivery, DeliveryState, EndReason},
        id::DeliveryId,
        ordering::{OnDead, OrderingKey, OrderingMode},
        outcome::OutcomeClass,
        time::Timestamp,
        verdict::{DeadReason, DueAction, Verdict},
    },
    store::{
        deliveries::{ActionResult, AvailabilityChange, DeliveryAction},
        queries::DeliveryListFilter,
    },
};
use std::{collections::BTreeMap, sync::Arc};

pub(crate) fn group(key: &str) -> Option<OrderingKey> {
    OrderingMode::Key.ordering_key(Some(key))
}

pub(crate) async fn order_by(stage: &Fixture, on_dead: OnDead) {
    let mut record = stage.store().endpoint(stage.endpoint).await.unwrap().unwrap();
    (record.settings.ordered, record.settings.on_dead) = (OrderingMode::Key, Some(on_dead));
    record.revision += 1;
    assert!(stage.store().change_endpoint(record, None).await.unwrap());
}

/// Publishes into the ordering group of this key, with a free permit.
async fn publish(stage: &mut Fixture, key: &str) -> DeliveryId {
    publish_at(stage, key, NOW).await
}

async fn publish_at(stage: &mut Fixture, key: &str, accepted_at: Timestamp) -> DeliveryId {
    let mut new = stage.one_with_permit();
    Arc::make_mut(&mut new.event).accepted_at = accepted_at;
    new.deliveries[0].delivery.ordering_key = group(key);
    stage.publish(new).await
}

/// Publishes three of one group, the first of them leased. The others are so much later that retention keeps them.
async fn three(stage: &mut Fixture, key: &str) -> [DeliveryId; 3] {
    let first = publish(stage, key).await;
    let later = after(1_000_000);
    let ids = [first, publish_at(stage, key, later).await, publish_at(stage, key, later).await];
    stage.recorder.take_waiting();
    ids
}

async fn end(stage: &Fixture, verdict: Verdict) {
    let leased = stage.only_leased();
    stage.record(leased, verdict, vec![attempt(OutcomeClass::Http, 500)]).await;
}

/// Checks the stored ordering groups: each has exactly one head, and the others wait.
pub(crate) async fn check_groups(stage: &Fixture) {
    let all = stage.store().deliveries(stage.app, DeliveryListFilter::default(), None, 10_000).await.unwrap();
    let mut lines: BTreeMap<_, (usize, usize)> = BTreeMap::new();
    for Delivery { endpoint, ordering_key, due, id, .. } in all.rows.into_iter().map(|listed| listed.delivery)
    {
        let Some(ordering_key) = ordering_key else {
            assert!(due < Some(Timestamp::NEVER), "{id} waits without an ordering group");
            continue;
        };
        let (first, behind) = lines.entry((endpoint, ordering_key)).or_default();
        *(if due == Some(Timestamp::NEVER) { behind } else { first }) += 1;
    }
    for (line, (first, behind)) in lines {
        assert_eq!(first, 1, "{line:?} with {behind} behind");
    }
}

async fn is_head(stage: &Fixture, id: DeliveryId) -> bool {
    let delivery = stage.delivery(id).await;
    delivery.ordering_key.is_some() && !delivery.is_queued_behind()
}

pub(crate) async fn the_next_delivery_starts_only_after_the_previous_one_has_ended(mut stage: Fixture) {
    order_by(&stage, OnDead::Block).await;
    let ids = three(&mut stage, "a").await;
    assert_eq!(stage.permits.taken(), 1, "queued deliveries released their permits");
    for id in &ids[1..] {
        let delivery = stage.delivery(*id).await;
        assert_eq!((delivery.state, delivery.next_attempt_at()), (DeliveryState::Pending, None));
        assert!(delivery.is_queued_behind());
    }
    end(&stage, retry_at(after(5))).await;
    assert_eq!(stage.refill(stage.endpoint, 9, after(4)).await.next_due, Some(after(5)));
    let leased = stage.lease(ids[0], after(5)).await;
    assert_eq!(
        stage.refill(stage.endpoint, 9, after(9_999)).await.next_due,
        None,
        "none of the others is due"
    );
    assert_eq!(stage.store().find_queues().await.unwrap(), []);
    stage.recorder.take_waiting();
    stage.record(leased, Verdict::Delivered, vec![attempt(OutcomeClass::Ok, 200)]).await;
    assert_eq!(stage.recorder.take_waiting(), [(stage.endpoint, after(1))], "as soon as it has ended");
    stage.refill(stage.endpoint, 9, after(6)).await;
    assert_eq!(stage.only_leased().delivery.id, ids[1]);
    assert!(stage.delivery(ids[2]).await.is_queued_behind());
    check_groups(&stage).await;
}

pub(crate) async fn only_deliveries_of_the_same_group_wait(mut stage: Fixture) {
    order_by(&stage, OnDead::Block).await;
    let first = publish(&mut stage, "a").await;
    publish(&mut stage, "a").await;
    let other = publish(&mut stage, "b").await;
    let unordered = stage.one_with_permit();
    let unordered = stage.publish(unordered).await;
    let leased: Vec<_> = stage.recorder.take_leased().iter().map(|leased| leased.delivery.id).collect();
    assert_eq!(leased, [first, other, unordered]);
    let endpoint = stage.new_endpoint(stage.app).await;
    let mut elsewhere = stage.draft(&[endpoint]);
    elsewhere.deliveries[0].delivery.ordering_key = group("a");
    let elsewhere = stage.publish(elsewhere).await;
    assert!(is_head(&stage, elsewhere).await, "the same key at another endpoint");
}

pub(crate) async fn a_delivery_published_for_later_is_due_then_when_it_is_promoted(mut stage: Fixture) {
    order_by(&stage, OnDead::Block).await;
    publish(&mut stage, "a").await;
    let mut new = stage.one_event();
    Arc::make_mut(&mut new.event).deliver_at = Some(after(600));
    (new.deliveries[0].delivery.due, new.deliveries[0].delivery.ordering_key) =
        (Some(after(600)), group("a"));
    let later = stage.publish(new).await;
    end(&stage, Verdict::Delivered).await;
    assert_eq!(stage.delivery(later).await.next_attempt_at(), Some(after(600)));
}

/// The ways for the head of a group to end, each with the endpoint's `on_dead`.
const HEAD_ENDINGS: [(&str, OnDead); 17] = [
    ("delivered", OnDead::Block),
    ("dead and skipped", OnDead::Skip),
    ("dead, then closed", OnDead::Block),
    ("dead, then deleted", OnDead::Block),
    ("dead, retried, delivered", OnDead::Block),
    ("dead, replayed, delivered", OnDead::Block),
    ("dead, replayed, cancelled", OnDead::Block),
    ("dead, closed by retention", OnDead::Block),
    ("dead, gone by retention", OnDead::Block),
    ("dead, then skipped", OnDead::Block),
    ("exhausted when due and skipped", OnDead::Skip),
    ("expired when due", OnDead::Block),
    ("cancelled while retrying", OnDead::Block),
    ("cancelled while held", OnDead::Block),
    ("expired by retention", OnDead::Block),
    ("handed back to an endpoint that cancels", OnDead::Block),
    ("taken over at an endpoint that cancels", OnDead::Block),
];

async fn go(stage: &mut Fixture, first: DeliveryId, way: &str) {
    let dies = dead(DeadReason::Exhausted);
    let wait = |then| Verdict::Retry { due: after(1), then };
    let replay = DeliveryAction::Replay { new_id: DeliveryId::from_i64(stage.next_id()), give_up_at: None };
    match way.split_once(", ") {
        Some(("dead", how)) => {
            end(stage, dies).await;
            assert!(is_head(stage, first).await, "it is in the way");
            match how {
                "then closed" => assert!(matches!(
                    stage.request(first, DeliveryAction::Close).await,
                    ActionResult::Done(_)
                )),
                "then deleted" => {
                    assert_eq!(stage.request(first, DeliveryAction::Delete).await, ActionResult::Deleted)
                }
                "then skipped" => {
                    order_by(stage, OnDead::Skip).await;
                    assert_eq!(stage.store().endpoints_to_apply().await.unwrap(), [stage.endpoint]);
                    apply_state(stage, AvailabilityChange::Enabled { gives_up_while_held: false }).await;
                    assert_eq!(stage.store().endpoints_to_apply().await.unwrap(), []);
                }
                "closed by retention" => retention::keep_nothing_but(stage, |kept| &mut kept.events).await,
                "gone by retention" => {
                    retention::keep_nothing_but(stage, |kept| &mut kept.payloads).await;
                    assert!(stage.listed(first).await.is_none());
                }
                "replayed, cancelled" => {
                    stage.request(first, replay).await;
                    stage.request(first, DeliveryAction::Cancel).await;
                }
                retried => {
                    let ask = if retried == "retried, delivered" { DeliveryAction::Retry } else { replay };
                    stage.request(first, ask).await;
                    let leased = stage.lease(first, NOW).await;
                    stage.record(leased, Verdict::Delivered, vec![attempt(OutcomeClass::Ok, 200)]).await;
                }
            }
        }
        _ => match way {
            "delivered" => end(stage, Verdict::Delivered).await,
            "dead and skipped" => end(stage, dies).await,
            "exhausted when due and skipped" | "expired when due" => {
                let then = if way.starts_with("exhausted") { DueAction::Exhaust } else { DueAction::Expire };
                end(stage, wait(then)).await;
                stage.refill(stage.endpoint, 1, after(1)).await;
            }
            "expired by retention" => {
                end(stage, wait(DueAction::Attempt)).await;
                retention::keep_nothing_but(stage, |kept| &mut kept.dead_letters).await;
            }
            "cancelled while retrying" | "cancelled while held" => {
                end(stage, wait(DueAction::Attempt)).await;
                if way.ends_with("held") {
                    stage.set_availability(stage.endpoint, Some(WaitingWhenDisabled::Held)).await;
                    apply_state(stage, AvailabilityChange::Disabled(Availability::DisabledHold)).await;
                }
                stage.request(first, DeliveryAction::Cancel).await;
            }
            _ => {
                stage.set_availability(stage.endpoint, Some(WaitingWhenDisabled::Cancelled)).await;
                if way.starts_with("taken over") {
                    stage.reopen();
                    stage.store().join(after(1)).await.unwrap();
                } else {
                    let leased = stage.recorder.take_leased();
                    stage.store().release(leased, after(1)).await.unwrap();
                    stage.wait_until_idle().await;
                }
            }
        },
    }
}

pub(crate) async fn apply_state(stage: &Fixture, settle: AvailabilityChange) {
    while stage.store().apply_to_waiting(stage.endpoint, settle, 2, after(9)).await.unwrap() == 2 {}
    stage.wait_until_idle().await;
}

pub(crate) async fn the_next_delivery_is_promoted_however_the_head_ends(mut stage: Fixture) {
    for (way, on_dead) in HEAD_ENDINGS {
        stage.endpoint = stage.new_endpoint(stage.app).await;
        order_by(&stage, on_dead).await;
        let ids = three(&mut stage, "a").await;
        go(&mut stage, ids[0], way).await;
        check_groups(&stage).await;
        assert!(is_head(&stage, ids[1]).await, "{way}");
        assert!(stage.delivery(ids[2]).await.is_queued_behind(), "{way}");
        let is_disabled = way.ends_with("held") || way.ends_with("cancels");
        let told = stage.recorder.take_waiting().iter().any(|(endpoint, _)| *endpoint == stage.endpoint);
        let is_leased = stage.recorder.take_leased().iter().any(|leased| leased.delivery.id == ids[1]);
        assert!(told || is_disabled || is_leased, "{way}: the engine must be notified");
        if let Some((listed, _)) = stage.listed(ids[0]).await {
            assert_eq!(listed.delivery.ordering_key, None, "{way}");
            assert_eq!(listed.delivery.skipped_at.is_some(), way.ends_with("skipped"), "{way}");
        }
    }
}

pub(crate) async fn a_dead_delivery_blocks_its_group_also_after_failed_retries(mut stage: Fixture) {
    order_by(&stage, OnDead::Block).await;
    let ids = three(&mut stage, "a").await;
    end(&stage, dead(DeadReason::Exhausted)).await;
    assert!(stage.recorder.take_waiting().is_empty());
    let replay = DeliveryAction::Replay { new_id: DeliveryId::from_i64(stage.next_id()), give_up_at: None };
    for ask in [DeliveryAction::Retry, replay] {
        stage.request(ids[0], ask).await;
        let leased = stage.lease(ids[0], NOW).await;
        stage
            .record(leased, dead(DeadReason::RefusedByReceiver), vec![attempt(OutcomeClass::Http, 400)])
            .await;
        stage.reopen();
        stage.store().join(after(1)).await.unwrap();
        assert!(is_head(&stage, ids[0]).await && stage.delivery(ids[1]).await.is_queued_behind());
        assert_eq!(stage.refill(stage.endpoint, 9, after(9_999)).await.next_due, None);
    }
    let fourth = publish(&mut stage, "a").await;
    assert!(stage.delivery(fourth).await.is_queued_behind(), "what comes new waits as well");
    assert!(stage.recorder.take_leased().is_empty());
    check_groups(&stage).await;
}

pub(crate) async fn ending_a_queued_delivery_changes_no_other(mut stage: Fixture) {
    order_by(&stage, OnDead::Block).await;
    let ids = three(&mut stage, "a").await;
    stage.request(ids[1], DeliveryAction::Cancel).await;
    assert_eq!(stage.ended(ids[1]).await, (DeliveryState::Cancelled, Some(EndReason::Manual)));
    assert!(stage.recorder.take_waiting().is_empty() && stage.delivery(ids[2]).await.is_queued_behind());
    assert!(
        matches!(stage.request(ids[2], DeliveryAction::Retry).await, ActionResult::Refused(_)),
        "a blocked delivery cannot be retried"
    );
    end(&stage, Verdict::Delivered).await;
    assert!(is_head(&stage, ids[2]).await);
    check_groups(&stage).await;
}

pub(crate) async fn replays_are_outside_the_order(mut stage: Fixture) {
    order_by(&stage, OnDead::Skip).await;
    let ids = three(&mut stage, "a").await;
    end(&stage, Verdict::Delivered).await;
    let as_new = DeliveryId::from_i64(stage.next_id());
    stage.request(ids[0], DeliveryAction::Replay { new_id: as_new, give_up_at: None }).await;
    let made = stage.delivery(as_new).await;
    assert_eq!((made.ordering_key, made.due), (None, Some(NOW)));
    stage.request(ids[2], DeliveryAction::Cancel).await;
    stage.request(ids[2], DeliveryAction::Retry).await;
    assert_eq!(stage.delivery(ids[2]).await.due, Some(NOW), "nor is one whose place is lost");
    check_groups(&stage).await;
}

pub(crate) async fn the_order_is_kept_while_the_endpoint_is_disabled(mut stage: Fixture) {
    order_by(&stage, OnDead::Block).await;
    let ids = three(&mut stage, "a").await;
    end(&stage, retry_at(after(60))).await;
    stage.set_availability(stage.endpoint, Some(WaitingWhenDisabled::Held)).await;
    apply_state(&stage, AvailabilityChange::Disabled(Availability::DisabledHold)).await;
    let mut new = stage.one_event();
    new.deliveries[0].delivery.ordering_key = group("a");
    new.deliveries[0].delivery.apply_availability(Availability::DisabledHold, NOW);
    let fourth = stage.publish(new).await;
    for id in ids.into_iter().chain([fourth]) {
        assert_eq!(stage.delivery(id).await.state, DeliveryState::Held);
    }
    check_groups(&stage).await;
    stage.set_availability(stage.endpoint, None).await;
    apply_state(&stage, AvailabilityChange::Enabled { gives_up_while_held: false }).await;
    assert_eq!(stage.delivery(ids[0]).await.due, Some(after(60)));
    for id in [ids[1], ids[2], fourth] {
        let delivery = stage.delivery(id).await;
        assert!(delivery.state == DeliveryState::Pending && delivery.is_queued_behind());
    }
    check_groups(&stage).await;
}

pub(crate) async fn an_endpoint_that_cancels_or_is_deleted_leaves_no_group(mut stage: Fixture) {
    for switch in [Availability::DisabledCancel, Availability::Deleted] {
        order_by(&stage, OnDead::Block).await;
        let ids = three(&mut stage, "a").await;
        end(&stage, retry_at(after(60))).await;
        match switch {
            Availability::Deleted => {
                assert!(stage.store().remove_endpoint(stage.endpoint, NOW, None).await.unwrap());
            }
            _ => stage.set_availability(stage.endpoint, Some(WaitingWhenDisabled::Cancelled)).await,
        }
        stage.recorder.take_waiting();
        apply_state(&stage, AvailabilityChange::Disabled(switch)).await;
        for id in ids {
            assert_eq!(stage.delivery(id).await.state, DeliveryState::Cancelled);
        }
        assert!(stage.recorder.take_waiting().is_empty(), "the engine needs no notification");
        stage.endpoint = stage.new_endpoint(stage.app).await;
    }
}

pub(crate) async fn a_takeover_keeps_the_order(mut stage: Fixture) {
    order_by(&stage, OnDead::Block).await;
    let ids = three(&mut stage, "a").await;
    stage.reopen();
    assert_eq!(stage.store().join(after(5)).await.unwrap().taken_over, 1);
    assert_eq!(stage.delivery(ids[0]).await.due, Some(after(5)));
    assert!(
        stage.delivery(ids[1]).await.is_queued_behind() && stage.delivery(ids[2]).await.is_queued_behind()
    );
    check_groups(&stage).await;
}

pub(crate) async fn a_group_of_expired_deliveries_ends_in_one_step(mut stage: Fixture) {
    order_by(&stage, OnDead::Block).await;
    let mut ids = Vec::new();
    for _ in 0..100 {
        let mut new = stage.one_event();
        (new.deliveries[0].delivery.ordering_key, new.deliveries[0].delivery.give_up_at) =
            (group("a"), Some(after(60)));
        ids.push(stage.publish(new).await);
    }
    let young = publish(&mut stage, "a").await;
    stage.refill(stage.endpoint, 1, after(60)).await;
    assert_eq!(stage.only_leased().delivery.id, young);
    for id in ids {
        assert_eq!(stage.ended(id).await, (DeliveryState::Expired, Some(EndReason::GaveUp)));
    }
}

pub(crate) async fn the_queue_lists_blocked_deliveries_last(mut stage: Fixture) {
    order_by(&stage, OnDead::Block).await;
    let ids = three(&mut stage, "a").await;
    let waiting = stage.waiting().await;
    end(&stage, retry_at(after(60))).await;
    let page = stage.store().queue(vec![stage.endpoint], None, 10).await.unwrap();
    let shown: Vec<_> = page.rows.iter().map(|listed| listed.delivery.id).collect();
    assert_eq!(shown, [waiting, ids[0], ids[1], ids[2]]);
    assert_eq!(stage.store().waiting_count().await.unwrap(), 4);
}
