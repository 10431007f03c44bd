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

pub(crate) async fn order_by(fixture: &Fixture, on_dead: OnDead) {
    let mut record = fixture.store().endpoint(fixture.endpoint).await.unwrap().unwrap();
    (record.settings.ordered, record.settings.on_dead) = (OrderingMode::Key, Some(on_dead));
    record.revision += 1;
    assert!(fixture.store().change_endpoint(record, None).await.unwrap());
}

/// Publishes into the ordering group of this key, with a free permit.
async fn publish(fixture: &mut Fixture, key: &str) -> DeliveryId {
    publish_at(fixture, key, NOW).await
}

async fn publish_at(fixture: &mut Fixture, key: &str, accepted_at: Timestamp) -> DeliveryId {
    let mut new = fixture.one_with_permit();
    Arc::make_mut(&mut new.event).accepted_at = accepted_at;
    new.deliveries[0].delivery.ordering_key = group(key);
    fixture.publish(new).await
}

/// Publishes three of one group, the first of them leased. The others are so much later that retention keeps them.
async fn three(fixture: &mut Fixture, key: &str) -> [DeliveryId; 3] {
    let first = publish(fixture, key).await;
    let later = after(1_000_000);
    let ids = [first, publish_at(fixture, key, later).await, publish_at(fixture, key, later).await];
    fixture.recorder.take_waiting();
    ids
}

async fn end(fixture: &Fixture, verdict: Verdict) {
    let leased = fixture.only_leased();
    fixture.record(leased, verdict, vec![attempt(OutcomeClass::Http, 500)]).await;
}

/// Checks the stored ordering groups: each has exactly one head, and the others wait.
pub(crate) async fn check_groups(fixture: &Fixture) {
    let all =
        fixture.store().deliveries(fixture.app, DeliveryListFilter::default(), None, 10_000).await.unwrap();
    let mut groups: BTreeMap<_, (usize, usize)> = BTreeMap::new();
    for Delivery { endpoint, ordering_key, due, id, .. } in all.rows.into_iter().map(|listed| listed.delivery)
    {
        let Some(ordering_key) = ordering_key else {
            assert!(due < Some(Timestamp::NEVER), "{id} waits without an ordering group");
            continue;
        };
        let (first, behind) = groups.entry((endpoint, ordering_key)).or_default();
        *(if due == Some(Timestamp::NEVER) { behind } else { first }) += 1;
    }
    for (group, (first, behind)) in groups {
        assert_eq!(first, 1, "{group:?} with {behind} behind");
    }
}

async fn is_head(fixture: &Fixture, id: DeliveryId) -> bool {
    let delivery = fixture.delivery(id).await;
    delivery.ordering_key.is_some() && !delivery.is_queued_behind()
}

pub(crate) async fn the_next_delivery_starts_only_after_the_previous_one_has_ended(mut fixture: Fixture) {
    order_by(&fixture, OnDead::Block).await;
    let ids = three(&mut fixture, "a").await;
    assert_eq!(fixture.permits.taken(), 1, "queued deliveries released their permits");
    for id in &ids[1..] {
        let delivery = fixture.delivery(*id).await;
        assert_eq!((delivery.state, delivery.next_attempt_at()), (DeliveryState::Pending, None));
        assert!(delivery.is_queued_behind());
    }
    end(&fixture, retry_at(after(5))).await;
    assert_eq!(fixture.refill(fixture.endpoint, 9, after(4)).await.next_due, Some(after(5)));
    let leased = fixture.lease(ids[0], after(5)).await;
    assert_eq!(
        fixture.refill(fixture.endpoint, 9, after(9_999)).await.next_due,
        None,
        "none of the others is due"
    );
    assert_eq!(fixture.store().find_queues().await.unwrap(), []);
    fixture.recorder.take_waiting();
    fixture.record(leased, Verdict::Delivered, vec![attempt(OutcomeClass::Ok, 200)]).await;
    assert_eq!(fixture.recorder.take_waiting(), [(fixture.endpoint, after(1))], "as soon as it has ended");
    fixture.refill(fixture.endpoint, 9, after(6)).await;
    assert_eq!(fixture.only_leased().delivery.id, ids[1]);
    assert!(fixture.delivery(ids[2]).await.is_queued_behind());
    check_groups(&fixture).await;
}

pub(crate) async fn only_deliveries_of_the_same_group_wait(mut fixture: Fixture) {
    order_by(&fixture, OnDead::Block).await;
    let first = publish(&mut fixture, "a").await;
    publish(&mut fixture, "a").await;
    let other = publish(&mut fixture, "b").await;
    let unordered = fixture.one_with_permit();
    let unordered = fixture.publish(unordered).await;
    let leased: Vec<_> = fixture.recorder.take_leased().iter().map(|leased| leased.delivery.id).collect();
    assert_eq!(leased, [first, other, unordered]);
    let endpoint = fixture.new_endpoint(fixture.app).await;
    let mut elsewhere = fixture.draft(&[endpoint]);
    elsewhere.deliveries[0].delivery.ordering_key = group("a");
    let elsewhere = fixture.publish(elsewhere).await;
    assert!(is_head(&fixture, elsewhere).await, "the same key at another endpoint");
}

pub(crate) async fn a_delivery_published_for_later_is_due_then_when_it_is_promoted(mut fixture: Fixture) {
    order_by(&fixture, OnDead::Block).await;
    publish(&mut fixture, "a").await;
    let mut new = fixture.one_event();
    Arc::make_mut(&mut new.event).deliver_at = Some(after(600));
    (new.deliveries[0].delivery.due, new.deliveries[0].delivery.ordering_key) =
        (Some(after(600)), group("a"));
    let later = fixture.publish(new).await;
    end(&fixture, Verdict::Delivered).await;
    assert_eq!(fixture.delivery(later).await.next_attempt_at(), Some(after(600)));
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

async fn go(fixture: &mut Fixture, first: DeliveryId, way: &str) {
    let dies = dead(DeadReason::Exhausted);
    let wait = |then| Verdict::Retry { due: after(1), then };
    let replay = DeliveryAction::Replay { new_id: DeliveryId::from_i64(fixture.next_id()), give_up_at: None };
    match way.split_once(", ") {
        Some(("dead", how)) => {
            end(fixture, dies).await;
            assert!(is_head(fixture, first).await, "it is in the way");
            match how {
                "then closed" => assert!(matches!(
                    fixture.request(first, DeliveryAction::Close).await,
                    ActionResult::Done(_)
                )),
                "then deleted" => {
                    assert_eq!(fixture.request(first, DeliveryAction::Delete).await, ActionResult::Deleted);
                }
                "then skipped" => {
                    order_by(fixture, OnDead::Skip).await;
                    assert_eq!(fixture.store().endpoints_to_apply().await.unwrap(), [fixture.endpoint]);
                    apply_state(fixture, AvailabilityChange::Enabled { gives_up_while_held: false }).await;
                    assert_eq!(fixture.store().endpoints_to_apply().await.unwrap(), []);
                }
                "closed by retention" => retention::keep_nothing_but(fixture, |kept| &mut kept.events).await,
                "gone by retention" => {
                    retention::keep_nothing_but(fixture, |kept| &mut kept.payloads).await;
                    assert!(fixture.listed(first).await.is_none());
                }
                "replayed, cancelled" => {
                    fixture.request(first, replay).await;
                    fixture.request(first, DeliveryAction::Cancel).await;
                }
                retried => {
                    let ask = if retried == "retried, delivered" { DeliveryAction::Retry } else { replay };
                    fixture.request(first, ask).await;
                    let leased = fixture.lease(first, NOW).await;
                    fixture.record(leased, Verdict::Delivered, vec![attempt(OutcomeClass::Ok, 200)]).await;
                }
            }
        }
        _ => match way {
            "delivered" => end(fixture, Verdict::Delivered).await,
            "dead and skipped" => end(fixture, dies).await,
            "exhausted when due and skipped" | "expired when due" => {
                let then = if way.starts_with("exhausted") { DueAction::Exhaust } else { DueAction::Expire };
                end(fixture, wait(then)).await;
                fixture.refill(fixture.endpoint, 1, after(1)).await;
            }
            "expired by retention" => {
                end(fixture, wait(DueAction::Attempt)).await;
                retention::keep_nothing_but(fixture, |kept| &mut kept.dead_letters).await;
            }
            "cancelled while retrying" | "cancelled while held" => {
                end(fixture, wait(DueAction::Attempt)).await;
                if way.ends_with("held") {
                    fixture.set_availability(fixture.endpoint, Some(WaitingWhenDisabled::Held)).await;
                    apply_state(fixture, AvailabilityChange::Disabled(Availability::DisabledHold)).await;
                }
                fixture.request(first, DeliveryAction::Cancel).await;
            }
            _ => {
                fixture.set_availability(fixture.endpoint, Some(WaitingWhenDisabled::Cancelled)).await;
                if way.starts_with("taken over") {
                    fixture.reopen();
                    fixture.store().join(after(1)).await.unwrap();
                } else {
                    let leased = fixture.recorder.take_leased();
                    fixture.store().release(leased, after(1)).await.unwrap();
                    fixture.wait_until_idle().await;
                }
            }
        },
    }
}

pub(crate) async fn apply_state(fixture: &Fixture, settle: AvailabilityChange) {
    while fixture.store().apply_to_waiting(fixture.endpoint, settle, 2, after(9)).await.unwrap() == 2 {}
    fixture.wait_until_idle().await;
}

pub(crate) async fn the_next_delivery_is_promoted_however_the_head_ends(mut fixture: Fixture) {
    for (way, on_dead) in HEAD_ENDINGS {
        fixture.endpoint = fixture.new_endpoint(fixture.app).await;
        order_by(&fixture, on_dead).await;
        let ids = three(&mut fixture, "a").await;
        go(&mut fixture, ids[0], way).await;
        check_groups(&fixture).await;
        assert!(is_head(&fixture, ids[1]).await, "{way}");
        assert!(fixture.delivery(ids[2]).await.is_queued_behind(), "{way}");
        let is_disabled = way.ends_with("held") || way.ends_with("cancels");
        let notified =
            fixture.recorder.take_waiting().iter().any(|(endpoint, _)| *endpoint == fixture.endpoint);
        let is_leased = fixture.recorder.take_leased().iter().any(|leased| leased.delivery.id == ids[1]);
        assert!(notified || is_disabled || is_leased, "{way}: the engine must be notified");
        if let Some((listed, _)) = fixture.listed(ids[0]).await {
            assert_eq!(listed.delivery.ordering_key, None, "{way}");
            assert_eq!(listed.delivery.skipped_at.is_some(), way.ends_with("skipped"), "{way}");
        }
    }
}

pub(crate) async fn a_dead_delivery_blocks_its_group_also_after_failed_retries(mut fixture: Fixture) {
    order_by(&fixture, OnDead::Block).await;
    let ids = three(&mut fixture, "a").await;
    end(&fixture, dead(DeadReason::Exhausted)).await;
    assert!(fixture.recorder.take_waiting().is_empty());
    let replay = DeliveryAction::Replay { new_id: DeliveryId::from_i64(fixture.next_id()), give_up_at: None };
    for ask in [DeliveryAction::Retry, replay] {
        fixture.request(ids[0], ask).await;
        let leased = fixture.lease(ids[0], NOW).await;
        fixture
            .record(leased, dead(DeadReason::RefusedByReceiver), vec![attempt(OutcomeClass::Http, 400)])
            .await;
        fixture.reopen();
        fixture.store().join(after(1)).await.unwrap();
        assert!(is_head(&fixture, ids[0]).await && fixture.delivery(ids[1]).await.is_queued_behind());
        assert_eq!(fixture.refill(fixture.endpoint, 9, after(9_999)).await.next_due, None);
    }
    let fourth = publish(&mut fixture, "a").await;
    assert!(fixture.delivery(fourth).await.is_queued_behind(), "what comes new waits as well");
    assert!(fixture.recorder.take_leased().is_empty());
    check_groups(&fixture).await;
}

pub(crate) async fn ending_a_queued_delivery_changes_no_other(mut fixture: Fixture) {
    order_by(&fixture, OnDead::Block).await;
    let ids = three(&mut fixture, "a").await;
    fixture.request(ids[1], DeliveryAction::Cancel).await;
    assert_eq!(fixture.ended(ids[1]).await, (DeliveryState::Cancelled, Some(EndReason::Manual)));
    assert!(fixture.recorder.take_waiting().is_empty() && fixture.delivery(ids[2]).await.is_queued_behind());
    assert!(
        matches!(fixture.request(ids[2], DeliveryAction::Retry).await, ActionResult::Refused(_)),
        "a blocked delivery cannot be retried"
    );
    end(&fixture, Verdict::Delivered).await;
    assert!(is_head(&fixture, ids[2]).await);
    check_groups(&fixture).await;
}

pub(crate) async fn replays_are_outside_the_order(mut fixture: Fixture) {
    order_by(&fixture, OnDead::Skip).await;
    let ids = three(&mut fixture, "a").await;
    end(&fixture, Verdict::Delivered).await;
    let as_new = DeliveryId::from_i64(fixture.next_id());
    fixture.request(ids[0], DeliveryAction::Replay { new_id: as_new, give_up_at: None }).await;
    let made = fixture.delivery(as_new).await;
    assert_eq!((made.ordering_key, made.due), (None, Some(NOW)));
    fixture.request(ids[2], DeliveryAction::Cancel).await;
    fixture.request(ids[2], DeliveryAction::Retry).await;
    assert_eq!(fixture.delivery(ids[2]).await.due, Some(NOW), "nor is one whose place is lost");
    check_groups(&fixture).await;
}

pub(crate) async fn the_order_is_kept_while_the_endpoint_is_disabled(mut fixture: Fixture) {
    order_by(&fixture, OnDead::Block).await;
    let ids = three(&mut fixture, "a").await;
    end(&fixture, retry_at(after(60))).await;
    fixture.set_availability(fixture.endpoint, Some(WaitingWhenDisabled::Held)).await;
    apply_state(&fixture, AvailabilityChange::Disabled(Availability::DisabledHold)).await;
    let mut new = fixture.one_event();
    new.deliveries[0].delivery.ordering_key = group("a");
    new.deliveries[0].delivery.apply_availability(Availability::DisabledHold, NOW);
    let fourth = fixture.publish(new).await;
    for id in ids.into_iter().chain([fourth]) {
        assert_eq!(fixture.delivery(id).await.state, DeliveryState::Held);
    }
    check_groups(&fixture).await;
    fixture.set_availability(fixture.endpoint, None).await;
    apply_state(&fixture, AvailabilityChange::Enabled { gives_up_while_held: false }).await;
    assert_eq!(fixture.delivery(ids[0]).await.due, Some(after(60)));
    for id in [ids[1], ids[2], fourth] {
        let delivery = fixture.delivery(id).await;
        assert!(delivery.state == DeliveryState::Pending && delivery.is_queued_behind());
    }
    check_groups(&fixture).await;
}

pub(crate) async fn an_endpoint_that_cancels_or_is_deleted_leaves_no_group(mut fixture: Fixture) {
    for availability in [Availability::DisabledCancel, Availability::Deleted] {
        order_by(&fixture, OnDead::Block).await;
        let ids = three(&mut fixture, "a").await;
        end(&fixture, retry_at(after(60))).await;
        match availability {
            Availability::Deleted => {
                assert!(fixture.store().remove_endpoint(fixture.endpoint, NOW, None).await.unwrap());
            }
            _ => fixture.set_availability(fixture.endpoint, Some(WaitingWhenDisabled::Cancelled)).await,
        }
        fixture.recorder.take_waiting();
        apply_state(&fixture, AvailabilityChange::Disabled(availability)).await;
        for id in ids {
            assert_eq!(fixture.delivery(id).await.state, DeliveryState::Cancelled);
        }
        assert!(fixture.recorder.take_waiting().is_empty(), "the engine needs no notification");
        fixture.endpoint = fixture.new_endpoint(fixture.app).await;
    }
}

pub(crate) async fn a_takeover_keeps_the_order(mut fixture: Fixture) {
    order_by(&fixture, OnDead::Block).await;
    let ids = three(&mut fixture, "a").await;
    fixture.reopen();
    assert_eq!(fixture.store().join(after(5)).await.unwrap().taken_over, 1);
    assert_eq!(fixture.delivery(ids[0]).await.due, Some(after(5)));
    assert!(
        fixture.delivery(ids[1]).await.is_queued_behind()
            && fixture.delivery(ids[2]).await.is_queued_behind()
    );
    check_groups(&fixture).await;
}

pub(crate) async fn a_group_of_expired_deliveries_ends_in_one_step(mut fixture: Fixture) {
    order_by(&fixture, OnDead::Block).await;
    let mut ids = Vec::new();
    for _ in 0..100 {
        let mut new = fixture.one_event();
        (new.deliveries[0].delivery.ordering_key, new.deliveries[0].delivery.give_up_at) =
            (group("a"), Some(after(60)));
        ids.push(fixture.publish(new).await);
    }
    let young = publish(&mut fixture, "a").await;
    fixture.refill(fixture.endpoint, 1, after(60)).await;
    assert_eq!(fixture.only_leased().delivery.id, young);
    for id in ids {
        assert_eq!(fixture.ended(id).await, (DeliveryState::Expired, Some(EndReason::GaveUp)));
    }
}

pub(crate) async fn the_queue_lists_blocked_deliveries_last(mut fixture: Fixture) {
    order_by(&fixture, OnDead::Block).await;
    let ids = three(&mut fixture, "a").await;
    let waiting = fixture.waiting().await;
    end(&fixture, retry_at(after(60))).await;
    let page = fixture.store().queue(vec![fixture.endpoint], None, 10).await.unwrap();
    let shown: Vec<_> = page.rows.iter().map(|listed| listed.delivery.id).collect();
    assert_eq!(shown, [waiting, ids[0], ids[1], ids[2]]);
    assert_eq!(fixture.store().waiting_count().await.unwrap(), 4);
}
