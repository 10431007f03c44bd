//! Retention: expired data is deleted in bounded steps, decided on the rows at that moment; other data stays, and a delivery
//! is deleted only after its end was recorded.

use crate::{
    fixture::{Fixture, NOW, after, attempt, dead},
    health::roll_up,
};
use posthaste::{
    domain::{
        contract::{Contract, Retention, RetentionPeriod},
        delivery::{DeliveryState, EndReason},
        event::{DedupKey, DedupSpace},
        id::{AppId, DeliveryId, EndpointId, EventId, first_id_at},
        live_update::LiveUpdate,
        outcome::OutcomeClass,
        retention::RetentionPolicy,
        time::Timestamp,
        verdict::{DeadReason, Verdict},
    },
    store::{
        StoreError,
        deliveries::{Accepted, ActionResult, DeliveryAction},
        retention::{ExpireResult, OverdueEvents, OverdueSearch},
    },
};
use std::{sync::Arc, time::Duration};

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// A policy with the same retention for every app and endpoint, except an app that is gone.
pub(crate) struct FixedRetention(pub(crate) Retention, pub(crate) Option<AppId>);

impl RetentionPolicy for FixedRetention {
    fn for_app(&self, app: AppId) -> Option<Retention> {
        (self.1 != Some(app)).then_some(self.0)
    }

    fn for_endpoint(&self, _: EndpointId) -> Option<Retention> {
        Some(self.0)
    }
}

/// Returns a retention of an hour for everything.
pub(crate) fn an_hour() -> Retention {
    let hour = RetentionPeriod::For(Duration::from_secs(HOUR));
    Retention { events: hour, attempts: hour, payloads: hour, dead_letters: hour }
}

fn days(days: u64) -> RetentionPeriod {
    RetentionPeriod::For(Duration::from_secs(days * DAY))
}

async fn overdue(
    fixture: &Fixture,
    keep: Retention,
    after_id: i64,
    most: u32,
    now: Timestamp,
) -> OverdueEvents {
    let search = OverdueSearch { after_id, to_id: i64::MAX, most };
    fixture.store().overdue(search, Arc::new(FixedRetention(keep, None)), now).await.unwrap()
}

/// Deletes everything overdue; returns the totals and the number of steps.
async fn expire(fixture: &Fixture, keep: Retention, now: Timestamp) -> (ExpireResult, usize) {
    let (mut total, mut steps) = (ExpireResult::default(), 0);
    let mut ranges = overdue(fixture, keep, 0, u32::MAX, now).await.ranges;
    while !ranges.is_empty() {
        let done = fixture.store().expire(ranges, Arc::new(FixedRetention(keep, None)), now).await.unwrap();
        total.ended.extend(done.ended);
        total.events += done.events;
        total.deliveries += done.deliveries;
        total.attempts += done.attempts;
        total.payloads += done.payloads;
        (ranges, steps) = (done.remaining, steps + 1);
        assert!(steps < 1000, "it never ends");
    }
    (total, steps)
}

/// Deletes everything a day from now, except data of the kind that `lasts` selects.
pub(crate) async fn keep_nothing_but(
    fixture: &Fixture,
    lasts: impl Fn(&mut Retention) -> &mut RetentionPeriod,
) {
    let mut keep = an_hour();
    *lasts(&mut keep) = RetentionPeriod::Forever;
    expire(fixture, keep, after(DAY)).await;
    fixture.wait_until_idle().await;
}

async fn event_of(fixture: &Fixture, delivery: DeliveryId) -> EventId {
    fixture.delivery(delivery).await.event
}

pub(crate) async fn an_event_is_deleted_with_all_its_data_and_no_other(mut fixture: Fixture) {
    let keys = [DedupSpace::EventId, DedupSpace::IdempotencyKey].map(|space| fixture.dedup(space, "order-1"));
    let mut new = fixture.one_with_permit();
    new.dedup = keys.to_vec();
    let event = new.event.id;
    let id = fixture.publish(new).await;
    let leased = fixture.only_leased();
    fixture.record(leased, Verdict::Delivered, vec![attempt(OutcomeClass::Ok, 200)]).await;
    let as_new = DeliveryId::from_i64(fixture.next_id() + 100_000);
    assert!(matches!(
        fixture.request(id, DeliveryAction::Replay { new_id: as_new, give_up_at: None }).await,
        ActionResult::Made(_)
    ));
    fixture.request(as_new, DeliveryAction::Cancel).await;
    let dead_letter = fixture.one_in(DeliveryState::Dead).await;

    let mut keep = an_hour();
    keep.dead_letters = RetentionPeriod::Forever;
    assert_eq!(expire(&fixture, keep, after(HOUR - 1)).await, (ExpireResult::default(), 0), "not yet");
    let (done, _) = expire(&fixture, keep, after(DAY + 1)).await;
    assert_eq!((done.events, done.deliveries, done.attempts, done.payloads), (1, 2, 1, 0));
    assert!(fixture.store().find_event(fixture.app, "x".into(), Some(event)).await.unwrap().is_none());
    assert!(fixture.listed(id).await.is_none() && fixture.listed(as_new).await.is_none());
    for key in keys {
        let mut again = fixture.one_event();
        again.dedup = vec![key];
        assert_eq!(fixture.accept(again).await, Accepted::New, "its keys went with it");
    }
    assert_eq!(fixture.history(dead_letter).await.len(), 1);
    let kept = event_of(&fixture, dead_letter).await;
    let kept = fixture.store().find_event(fixture.app, "x".into(), Some(kept)).await.unwrap();
    assert!(!kept.expect("its event").data.is_empty(), "it can be replayed");
}

pub(crate) async fn waiting_deliveries_end_on_record_before_deletion(mut fixture: Fixture) {
    let (pending, retrying) =
        (fixture.one_in(DeliveryState::Pending).await, fixture.one_in(DeliveryState::Retrying).await);
    let held = fixture.one_in(DeliveryState::Held).await;
    let leased = fixture.leased().await;
    fixture.recorder.take_live_updates();
    let (done, _) = expire(&fixture, an_hour(), after(HOUR)).await;
    let mut ended: Vec<_> = done.ended.iter().map(|(id, _)| *id).collect();
    ended.sort();
    assert_eq!(ended, [pending, retrying, held]);
    fixture.wait_until_idle().await;
    assert_eq!(fixture.recorder.take_live_updates(), [LiveUpdate::deliveries(fixture.app, fixture.endpoint)]);
    assert_eq!((done.events, done.deliveries, done.payloads), (0, 0, 3));
    for id in [pending, retrying, held] {
        let delivery = fixture.delivery(id).await;
        assert_eq!((delivery.state, delivery.reason), (DeliveryState::Expired, Some(EndReason::Retention)));
        assert_eq!(delivery.finished_at, Some(after(HOUR)));
    }
    roll_up(&fixture, after(HOUR)).await;
    let report = fixture.store().health(fixture.app, fixture.endpoint, after(HOUR)).await.unwrap();
    assert_eq!(
        (report.hour.expired, report.hour.counted_ends()),
        (3, 0),
        "counted, and not against the receiver"
    );
    assert_eq!(fixture.delivery(leased.delivery.id).await.state, DeliveryState::InFlight, "left alone");
    assert_eq!(fixture.store().find_queues().await.unwrap(), []);

    let (done, _) = expire(&fixture, an_hour(), after(2 * HOUR - 1)).await;
    assert_eq!(done, ExpireResult::default(), "on record for as long as attempts are kept");
    let late = leased.delivery.id;
    fixture.record(leased, dead(DeadReason::Exhausted), vec![attempt(OutcomeClass::Http, 500)]).await;
    let (done, _) = expire(&fixture, an_hour(), after(2 * HOUR)).await;
    assert_eq!((done.events, done.deliveries), (4, 4), "the one that was carried died meanwhile");
    assert!(fixture.listed(late).await.is_none());
}

pub(crate) async fn payloads_and_histories_are_deleted_before_their_records(mut fixture: Fixture) {
    let (id, waiting) =
        (fixture.one_in(DeliveryState::Delivered).await, fixture.one_in(DeliveryState::Retrying).await);
    let mut keep = Retention { events: days(30), ..an_hour() };
    let (done, _) = expire(&fixture, keep, after(HOUR + 1)).await;
    assert_eq!((done.events, done.deliveries, done.attempts, done.payloads), (0, 0, 1, 1));
    let (listed, attempts) = fixture.listed(id).await.unwrap();
    assert_eq!((listed.delivery.state, listed.delivery.attempt_count), (DeliveryState::Delivered, 1));
    assert_eq!((listed.delivery.history_len, attempts.len()), (1, 0));
    let event =
        fixture.store().find_event(fixture.app, "x".into(), Some(listed.delivery.event)).await.unwrap();
    assert!(event.expect("its record").data.is_empty());
    assert_eq!(fixture.history(waiting).await.len(), 1, "what waits keeps all it has");
    assert_eq!(overdue(&fixture, keep, 0, 100, after(HOUR + 2)).await.ranges, [], "done is done");
    let as_new = DeliveryId::from_i64(fixture.next_id());
    assert!(matches!(
        fixture.request(id, DeliveryAction::Replay { new_id: as_new, give_up_at: None }).await,
        ActionResult::Made(_)
    ));
    keep.events = RetentionPeriod::For(Duration::from_secs(1));
    let (done, _) = expire(&fixture, keep, after(2 * HOUR)).await;
    let mut ended: Vec<_> = done.ended.iter().map(|(id, _)| *id).collect();
    ended.sort();
    assert_eq!(ended, [waiting, as_new], "a contract that was changed counts for what is there");
}

pub(crate) async fn a_dead_letter_is_deleted_by_the_contract_it_died_under(mut fixture: Fixture) {
    let mut contract = Contract::builtin().unwrap().swap_remove(0);
    contract.retention.dead_letters = days(7);
    let mut attempt = attempt(OutcomeClass::Http, 500);
    attempt.contract = contract.hash();
    fixture.store().store_contract(contract.hash(), contract.to_json()).await.unwrap();
    let id = fixture.concluded(dead(DeadReason::Exhausted), attempt).await;
    let event = event_of(&fixture, id).await;
    let keep = Retention { events: days(30), payloads: days(30), ..an_hour() };
    assert_eq!(expire(&fixture, keep, after(7 * DAY)).await.0, ExpireResult::default());
    let (done, _) = expire(&fixture, keep, after(7 * DAY + 1)).await;
    assert_eq!(
        (done.events, done.deliveries, done.attempts),
        (0, 0, 1),
        "the event stays, and so does the record"
    );
    assert_eq!(fixture.delivery(id).await.reason, Some(EndReason::Closed), "it waits for no person any more");
    assert!(fixture.store().find_event(fixture.app, "x".into(), Some(event)).await.unwrap().is_some());
    let closed = fixture.one_in(DeliveryState::Dead).await;
    fixture.request(closed, DeliveryAction::Close).await;
    let keep = Retention { dead_letters: RetentionPeriod::Forever, ..an_hour() };
    assert_eq!(expire(&fixture, keep, after(HOUR + 1)).await.0.events, 2, "closed is done with");
}

/// Without its contract, a dead letter would be deleted by another one.
pub(crate) async fn an_unreadable_contract_stops_retention_and_is_named(mut fixture: Fixture) {
    let mut contract = Contract::builtin().unwrap().swap_remove(0);
    contract.retention.dead_letters = days(7);
    let mut attempt = attempt(OutcomeClass::Http, 500);
    attempt.contract = contract.hash();
    let unreadable = contract.to_json().replace("\"dead_letters\"", "\"dead_mails\"");
    fixture.store().store_contract(contract.hash(), unreadable).await.unwrap();
    fixture.concluded(dead(DeadReason::Exhausted), attempt).await;
    let keep = Retention { events: days(30), ..an_hour() };
    let search = OverdueSearch { after_id: 0, to_id: i64::MAX, most: 100 };
    let found = fixture.store().overdue(search, Arc::new(FixedRetention(keep, None)), after(DAY)).await;
    let StoreError::Corrupt(what) = found.unwrap_err() else { panic!("another error") };
    assert!(what.contains(&contract.hash().to_string()) && what.contains("dead_mails"), "{what}");
}

pub(crate) async fn rows_changed_since_the_search_are_decided_again(mut fixture: Fixture) {
    let (cancelled, delivered) =
        (fixture.one_in(DeliveryState::Cancelled).await, fixture.one_in(DeliveryState::Delivered).await);
    let now = after(HOUR + 1);
    let ranges = overdue(&fixture, an_hour(), 0, 100, now).await.ranges;
    assert_eq!(ranges.len(), 1);
    let as_new = DeliveryId::from_i64(first_id_at(now));
    let replay = DeliveryAction::Replay { new_id: as_new, give_up_at: None };
    for id in [cancelled, delivered] {
        fixture.store().act(fixture.app, id, replay, now, None).await.unwrap();
    }
    let done = fixture.store().expire(ranges, Arc::new(FixedRetention(an_hour(), None)), now).await.unwrap();
    assert_eq!((done.events, done.deliveries, done.payloads, done.ended.len()), (0, 0, 0, 0), "{done:?}");
    assert_eq!(fixture.delivery(cancelled).await.state, DeliveryState::Pending);
    assert_eq!(fixture.delivery(as_new).await.state, DeliveryState::Pending);
    let (done, _) = expire(&fixture, an_hour(), after(2 * HOUR + 1)).await;
    let ended = [cancelled, as_new].map(|id| (id, fixture.endpoint));
    assert_eq!(done.ended, ended, "a person set them going an hour ago");
}

pub(crate) async fn steps_are_bounded_and_a_search_continues_where_it_ended(mut fixture: Fixture) {
    for _ in 0..3 {
        let call = (0..700).map(|_| fixture.one_event()).collect();
        fixture.store().accept(call).await.unwrap();
    }
    let fanned = vec![fixture.endpoint; 2500];
    let new = fixture.draft(&fanned);
    fixture.publish(new).await;
    let (mut reached, mut looks, mut found) = (0, 0, 0);
    loop {
        let page = overdue(&fixture, an_hour(), reached, 500, after(HOUR)).await;
        looks += 1;
        found += page.ranges.len();
        assert!(page.reached > reached);
        reached = page.reached;
        if page.is_last {
            break;
        }
    }
    assert_eq!((looks, found > 4), (5, true), "2101 events, 500 at a time");
    let (done, steps) = expire(&fixture, an_hour(), after(HOUR)).await;
    assert!(done.ended.len() == 4600 && steps > 4, "{} in {steps} steps", done.ended.len());
    let (done, steps) = expire(&fixture, an_hour(), after(2 * HOUR)).await;
    assert_eq!((done.events, done.deliveries), (2101, 4600));
    assert!(steps > 6, "the one with many deliveries goes in parts: {steps}");
}

pub(crate) async fn an_idempotency_key_is_kept_for_a_day_with_its_event(mut fixture: Fixture) {
    let key = fixture.dedup(DedupSpace::IdempotencyKey, "k");
    let mut new = fixture.one_event();
    new.dedup = vec![key];
    let first = new.event.id;
    let id = fixture.publish(new).await;
    fixture.request(id, DeliveryAction::Cancel).await;
    let again = |fixture: &mut Fixture, key: DedupKey| {
        let mut new = fixture.one_event();
        new.dedup = vec![key];
        new
    };
    assert_eq!(expire(&fixture, an_hour(), after(DAY - 1)).await.0.events, 0);
    let new = again(&mut fixture, key);
    let Accepted::Repeated { event, deliveries } = fixture.accept(new).await else { panic!() };
    assert_eq!((event.id, event.data.is_empty(), deliveries.len()), (first, true, 1));
    assert_eq!(expire(&fixture, an_hour(), after(DAY)).await.0.events, 1);
    let new = again(&mut fixture, key);
    assert_eq!(fixture.accept(new).await, Accepted::New);
}

pub(crate) async fn data_of_a_deleted_app_is_left_to_the_purge(mut fixture: Fixture) {
    fixture.one_in(DeliveryState::Delivered).await;
    let gone = Arc::new(FixedRetention(an_hour(), Some(fixture.app)));
    let search = OverdueSearch { after_id: 0, to_id: i64::MAX, most: 10 };
    let found = fixture.store().overdue(search, gone.clone(), after(DAY)).await.unwrap();
    assert_eq!((found.ranges.len(), found.is_last), (0, true));
    let all = vec![(0, i64::MAX - 1)];
    assert_eq!(fixture.store().expire(all, gone, after(DAY)).await.unwrap(), ExpireResult::default());
}

pub(crate) async fn deleted_ids_are_not_used_again(mut fixture: Fixture) {
    let call: Vec<_> = (0..500).map(|_| fixture.draft(&[])).collect();
    let newest = call.last().unwrap().event.id.as_i64();
    fixture.store().accept(call).await.unwrap();
    assert_eq!(expire(&fixture, an_hour(), after(HOUR)).await.0.events, 500);
    fixture.reopen();
    assert!(fixture.store().join(NOW).await.unwrap().newest_id >= newest);
}

/// For stores that know their own pages.
pub(crate) async fn freed_space_is_used_again(mut fixture: Fixture) {
    let mut most = 0;
    for round in 0..6 {
        let call: Vec<_> = (0..500).map(|_| fixture.draft(&[])).collect();
        fixture.store().accept(call).await.unwrap();
        let usage = fixture.store().usage().await.unwrap();
        let file = usage.used_bytes + usage.reusable_bytes;
        if round == 0 {
            most = file + file / 10;
        }
        assert!(file <= most, "the file grows: {usage:?} {most}");
        assert_eq!(expire(&fixture, an_hour(), after(HOUR)).await.0.events, 500);
        let after = fixture.store().usage().await.unwrap();
        assert!(after.used_bytes < usage.used_bytes && after.reusable_bytes > usage.reusable_bytes);
        assert!(after.disk_free_bytes.is_some_and(|free| free > 0) && after.log_bytes > 0);
    }
}
