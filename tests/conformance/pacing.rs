//! Queries for the engine's pacing: fresh deliveries beside a backlog, manual ones before both, and retries advanced when an
//! endpoint answers again.

use crate::{
    fixture::{Fixture, NOW, after, attempt, dead, retry_at},
    replays::{begin, deliveries, finish},
};
use posthaste::{
    domain::{
        circuit_breaker::EARLY_PROBE_NOTE,
        delivery::{Delivery, DeliveryState},
        id::{DeliveryId, made_at},
        outcome::{Attempt, OutcomeClass},
        ports::LeasedDelivery,
        time::Timestamp,
        verdict::{DeadReason, DueAction, Verdict},
    },
    store::deliveries::{AdvanceRetries, AdvancedRetries, DeliveryAction, LeaseRequest},
};

const EPOCH: Timestamp = Timestamp::from_millis(0);

async fn due_at(fixture: &mut Fixture, due: Timestamp) -> DeliveryId {
    let mut new = fixture.one_event();
    new.deliveries[0].delivery.due = Some(due);
    fixture.publish(new).await
}

fn lease_request(fixture: &Fixture, overdue: usize, fresh: usize, manual: usize) -> LeaseRequest {
    let permits = |count: usize| (0..count).map(|_| fixture.permits.take()).collect();
    LeaseRequest {
        backlog_until: Some(after(5)),
        fresh_permits: permits(fresh),
        manual_permits: permits(manual),
        ..fixture.refill_request(fixture.endpoint, overdue)
    }
}

/// Refills; returns the leased deliveries, and whether there may be more fresh ones, and more manual ones.
async fn refill(
    fixture: &Fixture,
    lease_request: LeaseRequest,
    now: Timestamp,
) -> (Vec<DeliveryId>, bool, bool) {
    let refilled = fixture.store().lease_due(vec![lease_request], now).await.unwrap().remove(0);
    fixture.wait_until_idle().await;
    let leased = fixture.recorder.take_leased().iter().map(|leased| leased.delivery.id).collect();
    (leased, refilled.has_more_fresh, refilled.has_more_manual)
}

pub(crate) async fn fresh_deliveries_are_leased_beside_a_backlog_up_to_their_permits(mut fixture: Fixture) {
    let mut overdue = Vec::new();
    for second in 0..4 {
        overdue.push(due_at(&mut fixture, after(second)).await);
    }
    let fresh = [due_at(&mut fixture, after(6)).await, due_at(&mut fixture, after(7)).await];
    let later = due_at(&mut fixture, after(20)).await;
    let found = refill(&fixture, lease_request(&fixture, 2, 1, 0), after(10)).await;
    assert_eq!(found, (vec![overdue[0], overdue[1], fresh[0]], true, false));
    let found = refill(&fixture, lease_request(&fixture, 5, 5, 0), after(10)).await;
    assert_eq!(found, (vec![overdue[2], overdue[3], fresh[1]], false, false));
    assert_eq!(fixture.permits.taken(), 0, "all unused permits were released");
    assert_eq!(refill(&fixture, lease_request(&fixture, 0, 1, 0), after(20)).await.0, [later]);
}

pub(crate) async fn manual_deliveries_are_leased_before_any_backlog(mut fixture: Fixture) {
    let overdue = [due_at(&mut fixture, EPOCH).await, due_at(&mut fixture, EPOCH).await];
    let retried = fixture.one_in(DeliveryState::Dead).await;
    fixture.request(retried, DeliveryAction::Retry).await;
    let replayed = fixture.one_in(DeliveryState::Dead).await;
    fixture
        .request(replayed, DeliveryAction::Replay { new_id: DeliveryId::from_i64(1), give_up_at: None })
        .await;
    let delivered = fixture.one_in(DeliveryState::Delivered).await;
    let as_new = fixture.one_event().deliveries[0].delivery.id;
    fixture.request(delivered, DeliveryAction::Replay { new_id: as_new, give_up_at: None }).await;
    let found = refill(&fixture, lease_request(&fixture, 1, 0, 2), after(10)).await;
    assert_eq!(found, (vec![retried, replayed, overdue[0]], false, true));
    let found = refill(&fixture, lease_request(&fixture, 0, 0, 2), after(10)).await;
    assert_eq!(found, (vec![as_new], false, false), "and nothing else");
}

pub(crate) async fn a_replay_of_many_waits_behind_a_backlog(mut fixture: Fixture) {
    let (dead, delivered) =
        (fixture.one_in(DeliveryState::Dead).await, fixture.one_in(DeliveryState::Delivered).await);
    // A manual delivery that failed is no longer manual.
    fixture.request(dead, DeliveryAction::Retry).await;
    let leased = fixture.lease(dead, after(10)).await;
    assert!(leased.delivery.is_manual);
    fixture.record(leased, retry_at(after(20)), vec![attempt(OutcomeClass::Http, 500)]).await;
    let overdue = due_at(&mut fixture, EPOCH).await;
    let selection = deliveries(None, None, &[DeliveryState::Dead, DeliveryState::Delivered]);
    let replay = begin(&mut fixture, selection).await;
    assert_eq!(finish(&mut fixture, &replay).await.replayed, 2);
    let found = refill(&fixture, lease_request(&fixture, 0, 0, 9), after(10)).await;
    assert_eq!(found, (vec![], false, false), "none of them is manual");
    let (found, ..) = refill(&fixture, lease_request(&fixture, 1, 9, 0), after(10)).await;
    assert_eq!((found.len(), found[0], found.contains(&dead)), (3, overdue, true));
    assert!(!found.contains(&delivered), "a new one goes in its place");
}

fn tried_at(started_at: Timestamp) -> Attempt {
    Attempt { started_at, ..attempt(OutcomeClass::Http, 500) }
}

fn recovery(fixture: &Fixture, most: usize) -> AdvanceRetries {
    let after = (after(10), DeliveryId::from_i64(0));
    AdvanceRetries { endpoint: fixture.endpoint, recovered_at: after.0, after, most }
}

pub(crate) async fn future_retries_are_advanced_once_in_pages(mut fixture: Fixture) {
    let mut ids = Vec::new();
    for wait in [300, 100, 200] {
        ids.push(fixture.concluded(retry_at(after(wait)), tried_at(NOW)).await);
    }
    fixture.recorder.take_waiting();
    let first = fixture.store().advance_retries(recovery(&fixture, 2), after(11)).await.unwrap();
    assert_eq!(first, AdvancedRetries { count: 2, next: Some((after(200), ids[2])) });
    fixture.wait_until_idle().await;
    assert_eq!(fixture.recorder.take_waiting(), [(fixture.endpoint, after(11))], "the queue is woken");
    let next = AdvanceRetries { after: first.next.unwrap(), ..recovery(&fixture, 2) };
    let second = fixture.store().advance_retries(next, after(11)).await.unwrap();
    assert_eq!(second, AdvancedRetries { count: 1, next: None });
    for id in &ids {
        let delivery = fixture.delivery(*id).await;
        assert_eq!((delivery.state, delivery.retry_index), (DeliveryState::Retrying, 1));
        assert_eq!(delivery.due, Some(made_at(id.as_i64())), "the oldest first");
    }
    let again = fixture.store().advance_retries(recovery(&fixture, 9), after(11)).await.unwrap();
    assert_eq!(again, AdvancedRetries { count: 0, next: None });
}

pub(crate) async fn only_retries_attempted_before_the_recovery_are_advanced(mut fixture: Fixture) {
    let scheduled = due_at(&mut fixture, after(100)).await;
    let tried_since = fixture.concluded(retry_at(after(100)), tried_at(after(10))).await;
    let ends = |then| Verdict::Retry { due: after(100), then };
    let waits_for_its_end = fixture.concluded(ends(DueAction::Exhaust), tried_at(NOW)).await;
    let expires = fixture.concluded(ends(DueAction::Expire), tried_at(NOW)).await;
    let elsewhere = fixture.concluded(dead(DeadReason::Exhausted), tried_at(NOW)).await;
    let all = [scheduled, tried_since, waits_for_its_end, expires, elsewhere];
    let mut before = Vec::new();
    for id in all {
        before.push(fixture.delivery(id).await);
    }
    fixture.recorder.take_waiting();
    let advanced = fixture.store().advance_retries(recovery(&fixture, 9), after(11)).await.unwrap();
    assert_eq!(advanced.count, 0);
    fixture.wait_until_idle().await;
    assert!(fixture.recorder.take_waiting().is_empty());
    for (id, before) in all.into_iter().zip(before) {
        assert_eq!(fixture.delivery(id).await, before);
    }
}

async fn probe(fixture: &Fixture, now: Timestamp) -> Option<LeasedDelivery> {
    let lease_request = LeaseRequest { is_probe: true, ..fixture.refill_request(fixture.endpoint, 1) };
    let refilled = fixture.store().lease_due(vec![lease_request], now).await.unwrap().remove(0);
    fixture.wait_until_idle().await;
    let leased = fixture.recorder.take_leased().pop();
    assert_eq!(refilled.has_no_oldest, leased.is_none());
    leased
}

pub(crate) async fn a_probe_leases_a_due_delivery_or_else_the_earliest_retry(mut fixture: Fixture) {
    due_at(&mut fixture, after(50)).await;
    let exhausts = Verdict::Retry { due: after(60), then: DueAction::Exhaust };
    fixture.concluded(exhausts, tried_at(NOW)).await;
    assert!(probe(&fixture, after(10)).await.is_none(), "neither what was never tried nor what will not be");
    let later = fixture.concluded(retry_at(after(300)), tried_at(NOW)).await;
    let first = fixture.concluded(retry_at(after(100)), tried_at(NOW)).await;
    let planned = fixture.delivery(first).await;
    let due = due_at(&mut fixture, after(9)).await;
    let leased = probe(&fixture, after(10)).await.unwrap();
    assert_eq!((leased.delivery.id, leased.delivery.saved_state), (due, None), "what is due");
    let leased = probe(&fixture, after(10)).await.unwrap();
    assert_eq!((leased.delivery.id, leased.due), (first, after(10)));
    assert!(leased.delivery.is_early_probe());
    fixture.record(leased, retry_at(after(900)), vec![attempt(OutcomeClass::Http, 500)]).await;
    let (history_len, attempt_count) = (planned.history_len + 1, planned.attempt_count + 1);
    assert_eq!(fixture.delivery(first).await, Delivery { history_len, attempt_count, ..planned });
    let leased = probe(&fixture, after(20)).await.unwrap();
    fixture.record(leased, Verdict::Delivered, vec![attempt(OutcomeClass::Ok, 200)]).await;
    assert_eq!(fixture.ended(first).await, (DeliveryState::Delivered, None));
    assert_eq!(probe(&fixture, after(20)).await.unwrap().delivery.id, later);
}

pub(crate) async fn an_interrupted_early_probe_leaves_the_schedule_unchanged(mut fixture: Fixture) {
    let id = fixture.concluded(retry_at(after(100)), tried_at(NOW)).await;
    let planned = fixture.delivery(id).await;
    let leased = probe(&fixture, after(10)).await.unwrap();
    fixture.store().release(vec![leased], after(11)).await.unwrap();
    fixture.wait_until_idle().await;
    assert_eq!(fixture.delivery(id).await, planned, "handed back");
    drop(probe(&fixture, after(12)).await.unwrap());
    fixture.reopen();
    fixture.store().join(after(13)).await.unwrap();
    let history_len = planned.history_len + 1;
    assert_eq!(fixture.delivery(id).await, Delivery { history_len, ..planned }, "taken over");
    let note = fixture.history(id).await.pop().unwrap().attempt.note;
    assert_eq!(note.as_deref(), Some(EARLY_PROBE_NOTE));
}
