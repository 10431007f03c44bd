//! Lists: pages that neither repeat nor miss a row, filters, and a limit on the rows that one page examines.

use crate::fixture::{Fixture, NOW, after, attempt, dead, draft};
use posthaste::{
    domain::{
        delivery::DeliveryState,
        id::{AppId, DeliveryId, EndpointId, IdSource},
        outcome::OutcomeClass,
        time::Timestamp,
        verdict::DeadReason,
    },
    store::{
        deliveries::{DeliveryAction, DeliveryResult, NewEvent},
        queries::{Cursor, DeliveryListFilter, DeliveryRow, EventFilter, Page, ROWS_EXAMINED_MAX},
    },
};
use std::sync::Arc;

/// Follows the cursors to the end; returns the ids page by page.
async fn walk(mut page_after: impl AsyncFnMut(Option<Cursor>) -> Page<DeliveryRow>) -> Vec<Vec<DeliveryId>> {
    let (mut pages, mut after) = (vec![], None);
    loop {
        let page = page_after(after).await;
        pages.push(page.rows.iter().map(|row| row.delivery.id).collect());
        after = page.next;
        if after.is_none() {
            return pages;
        }
        assert!(pages.len() < 1000, "a list that never ends");
    }
}

async fn deliveries(fixture: &Fixture, filter: &DeliveryListFilter, limit: u32) -> Vec<Vec<DeliveryId>> {
    walk(async |after| fixture.store().deliveries(fixture.app, filter.clone(), after, limit).await.unwrap())
        .await
}

async fn dead_letters(
    fixture: &Fixture,
    endpoint: Option<EndpointId>,
    closed_too: bool,
    limit: u32,
) -> Vec<Vec<DeliveryId>> {
    walk(async |after| {
        fixture.store().dead_letters(fixture.app, endpoint, closed_too, after, limit).await.unwrap()
    })
    .await
}

async fn fitting(fixture: &Fixture, filter: DeliveryListFilter) -> Vec<DeliveryId> {
    deliveries(fixture, &filter, 100).await.concat()
}

/// Publishes these in calls of a thousand.
async fn publish_all(fixture: &Fixture, events: Vec<NewEvent>) {
    let mut events = events.into_iter();
    loop {
        let call: Vec<NewEvent> = events.by_ref().take(1000).collect();
        if call.is_empty() {
            return;
        }
        fixture.store().accept(call).await.unwrap();
    }
}

fn of_type(mut new: NewEvent, event_type: &str) -> NewEvent {
    Arc::get_mut(&mut new.event).unwrap().event_type = event_type.into();
    new
}

/// Makes an event published at this time.
fn made_at(fixture: &Fixture, at: Timestamp) -> NewEvent {
    draft(fixture.app, &[fixture.endpoint], IdSource::new(0, 0).next_range(at, 2))
}

pub(crate) async fn pages_are_newest_first_and_neither_repeat_nor_miss_a_row(mut fixture: Fixture) {
    let mut ids = vec![];
    for _ in 0..7 {
        ids.insert(0, fixture.waiting().await);
    }
    for (limit, sizes) in [(1, vec![1; 7]), (3, vec![3, 3, 1]), (7, vec![7]), (100, vec![7])] {
        let pages = deliveries(&fixture, &DeliveryListFilter::default(), limit).await;
        assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), sizes);
        assert_eq!(pages.concat(), ids);
    }
    let mut after = None;
    let mut events = vec![];
    loop {
        let page = fixture.store().events(fixture.app, EventFilter::default(), after, 2).await.unwrap();
        events.extend(page.rows.iter().map(|event| event.id.as_i64() + 1));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(events, ids.iter().map(|id| id.as_i64()).collect::<Vec<_>>());
}

pub(crate) async fn a_page_continues_where_the_last_ended_although_rows_arrive(mut fixture: Fixture) {
    let old = [fixture.waiting().await, fixture.waiting().await];
    let filter = DeliveryListFilter::default;
    let first = fixture.store().deliveries(fixture.app, filter(), None, 1).await.unwrap();
    fixture.waiting().await;
    let second = fixture.store().deliveries(fixture.app, filter(), first.next, 1).await.unwrap();
    assert_eq!((first.rows[0].delivery.id, second.rows[0].delivery.id), (old[1], old[0]));
}

pub(crate) async fn other_apps_are_in_no_list(mut fixture: Fixture) {
    let own = fixture.one_in(DeliveryState::Dead).await;
    let (app, endpoint) = (fixture.app, fixture.endpoint);
    fixture.app = fixture.new_app().await;
    fixture.endpoint = fixture.new_endpoint(fixture.app).await;
    for state in DeliveryState::ALL {
        fixture.one_in(state).await;
    }
    (fixture.app, fixture.endpoint) = (app, endpoint);
    assert_eq!(fitting(&fixture, DeliveryListFilter::default()).await, [own]);
    assert_eq!(dead_letters(&fixture, None, true, 10).await.concat(), [own]);
    let events = fixture.store().events(app, EventFilter::default(), None, 10).await.unwrap();
    assert_eq!(events.rows.len(), 1);
}

pub(crate) async fn filters_combine(mut fixture: Fixture) {
    let other = fixture.new_endpoint(fixture.app).await;
    let (paid, refund) =
        (fixture.draft(&[fixture.endpoint, other]), of_type(fixture.draft(&[other]), "refund"));
    let paid_event = paid.event.id;
    let paid_ids: Vec<_> = paid.deliveries.iter().map(|new_delivery| new_delivery.delivery.id).collect();
    let refund_id = refund.deliveries[0].delivery.id;
    publish_all(&fixture, vec![paid, refund]).await;
    let dead = fixture.one_in(DeliveryState::Dead).await;
    let all = DeliveryListFilter::default;
    let by_state = DeliveryListFilter { states: vec![DeliveryState::Dead, DeliveryState::Held], ..all() };
    assert_eq!(fitting(&fixture, by_state).await, [dead]);
    let by_endpoint = DeliveryListFilter { endpoint: Some(other), ..all() };
    assert_eq!(fitting(&fixture, by_endpoint.clone()).await, [refund_id, paid_ids[1]]);
    let by_event = DeliveryListFilter { event: Some(paid_event), ..all() };
    assert_eq!(fitting(&fixture, by_event).await, [paid_ids[1], paid_ids[0]]);
    let by_type = DeliveryListFilter { event_type: Some("refund".into()), ..all() };
    assert_eq!(fitting(&fixture, by_type).await, [refund_id]);
    let both = DeliveryListFilter { event_type: Some("payment.paid".into()), ..by_endpoint };
    assert_eq!(fitting(&fixture, both).await, [paid_ids[1]]);
    let filter = EventFilter { event_type: Some("refund".into()), ..EventFilter::default() };
    let events = fixture.store().events(fixture.app, filter, None, 10).await.unwrap();
    assert_eq!(events.rows.iter().map(|event| event.event_type.as_str()).collect::<Vec<_>>(), ["refund"]);
}

pub(crate) async fn a_time_filter_includes_its_start_and_excludes_its_end(fixture: Fixture) {
    let times = [after(100), after(200), after(300)];
    let events: Vec<NewEvent> = times.iter().map(|at| made_at(&fixture, *at)).collect();
    let ids: Vec<DeliveryId> = events.iter().map(|new| new.deliveries[0].delivery.id).collect();
    publish_all(&fixture, events).await;
    let between = |from, to| DeliveryListFilter { from, to, ..DeliveryListFilter::default() };
    assert_eq!(fitting(&fixture, between(Some(times[1]), None)).await, [ids[2], ids[1]]);
    assert_eq!(fitting(&fixture, between(None, Some(times[1]))).await, [ids[0]]);
    assert_eq!(fitting(&fixture, between(Some(times[1]), Some(times[2]))).await, [ids[1]]);
    let filter = EventFilter { from: Some(times[1]), to: Some(times[2]), event_type: None };
    let found = fixture.store().events(fixture.app, filter, None, 10).await.unwrap();
    assert_eq!(found.rows.len(), 1);
}

pub(crate) async fn a_rare_row_is_found_behind_ten_thousand_others_in_bounded_steps(mut fixture: Fixture) {
    let rare = of_type(fixture.one_event(), "rare");
    let (rare_event, rare_id) = (rare.event.id, rare.deliveries[0].delivery.id);
    let mut events = vec![rare];
    for _ in 0..ROWS_EXAMINED_MAX + 500 {
        let new = fixture.one_event();
        events.push(new);
    }
    publish_all(&fixture, events).await;
    let filter = DeliveryListFilter { event_type: Some("rare".into()), ..DeliveryListFilter::default() };
    let pages = deliveries(&fixture, &filter, 50).await;
    assert_eq!(pages, [vec![], vec![rare_id]], "short, with a cursor, then complete");
    let filter = EventFilter { event_type: Some("rare".into()), ..EventFilter::default() };
    let first = fixture.store().events(fixture.app, filter.clone(), None, 50).await.unwrap();
    assert!(first.rows.is_empty() && first.next.is_some());
    let second = fixture.store().events(fixture.app, filter, first.next, 50).await.unwrap();
    assert_eq!(second.rows.iter().map(|event| event.id).collect::<Vec<_>>(), [rare_event]);
    assert_eq!(second.next, None);
}

/// Makes a delivery that becomes dead at `at`.
async fn die(fixture: &mut Fixture, at: Timestamp) -> DeliveryId {
    let leased = fixture.leased().await;
    let id = leased.delivery.id;
    let (attempts, verdict) = (vec![attempt(OutcomeClass::Http, 500)], dead(DeadReason::Exhausted));
    let (disable, health_sample, contract) = (None, None, None);
    fixture.store().record_result(DeliveryResult {
        leased,
        attempts,
        verdict,
        disable,
        health_sample,
        ended_at: at,
        contract,
    });
    fixture.wait_until_idle().await;
    id
}

pub(crate) async fn dead_letters_are_listed_by_time_of_death_newest_first(mut fixture: Fixture) {
    let mut died = vec![];
    for seconds in [5, 9, 1, 9, 9, 3] {
        died.push(die(&mut fixture, after(seconds)).await);
    }
    let expected = [died[4], died[3], died[1], died[0], died[5], died[2]];
    for limit in [1, 2, 4, 6, 50] {
        assert_eq!(dead_letters(&fixture, None, false, limit).await.concat(), expected, "by {limit}");
    }
    fixture.request(died[3], DeliveryAction::Close).await;
    let without: Vec<_> = expected.into_iter().filter(|id| *id != died[3]).collect();
    assert_eq!(dead_letters(&fixture, None, false, 2).await.concat(), without);
    assert_eq!(dead_letters(&fixture, None, true, 2).await.concat(), expected);
    fixture.request(died[4], DeliveryAction::Retry).await;
    assert_eq!(
        dead_letters(&fixture, None, true, 2).await.concat(),
        expected[1..],
        "what is tried is not dead"
    );
}

pub(crate) async fn dead_letters_of_one_endpoint_are_its_own(mut fixture: Fixture) {
    let first = die(&mut fixture, after(1)).await;
    let other = fixture.new_endpoint(fixture.app).await;
    let endpoint = std::mem::replace(&mut fixture.endpoint, other);
    let second = die(&mut fixture, after(2)).await;
    assert_eq!(dead_letters(&fixture, Some(endpoint), false, 10).await.concat(), [first]);
    assert_eq!(dead_letters(&fixture, Some(other), false, 10).await.concat(), [second]);
}

pub(crate) async fn ten_thousand_closed_dead_letters_do_not_make_a_page_long(mut fixture: Fixture) {
    let open = die(&mut fixture, NOW).await;
    let mut events = vec![];
    for _ in 0..ROWS_EXAMINED_MAX + 500 {
        let mut new = fixture.one_event();
        let delivery = &mut new.deliveries[0].delivery;
        delivery.start_in_flight();
        let availability = posthaste::domain::delivery::Availability::Enabled;
        delivery.apply_verdict(&dead(DeadReason::Exhausted), (0, 0), availability, after(1)).unwrap();
        delivery.close().unwrap();
        events.push(new);
    }
    publish_all(&fixture, events).await;
    let pages = dead_letters(&fixture, None, false, 50).await;
    assert_eq!(pages, [vec![], vec![open]], "short, with a cursor, then complete");
}

pub(crate) async fn the_queue_of_several_endpoints_is_in_order_of_due_time(mut fixture: Fixture) {
    let other = fixture.new_endpoint(fixture.app).await;
    let mut ids = vec![];
    for (endpoint, seconds) in
        [(fixture.endpoint, 5), (other, 1), (fixture.endpoint, 1), (other, 9), (other, 5)]
    {
        let mut new = fixture.draft(&[endpoint]);
        new.deliveries[0].delivery.due = Some(after(seconds));
        ids.push(fixture.publish(new).await);
    }
    fixture.one_in(DeliveryState::Held).await;
    fixture.one_in(DeliveryState::InFlight).await;
    let queues = [fixture.endpoint, other];
    let queue = async |queues: &[EndpointId], limit| {
        walk(async |after| fixture.store().queue(queues.to_vec(), after, limit).await.unwrap()).await
    };
    let expected = [ids[1], ids[2], ids[0], ids[4], ids[3]];
    for limit in [1, 2, 3, 5, 50] {
        let pages = queue(&queues, limit).await;
        assert_eq!(pages.concat(), expected, "by {limit}");
        assert_eq!(pages.len(), 5usize.div_ceil(limit as usize));
    }
    assert_eq!(queue(&queues[..1], 50).await.concat(), [ids[2], ids[0]]);
    assert_eq!(queue(&[], 50).await.concat(), []);
}

pub(crate) async fn an_app_without_anything_has_empty_lists(fixture: Fixture) {
    let nobody = AppId::from_i64(1);
    let store = fixture.store();
    let events = store.events(nobody, EventFilter::default(), None, 10).await.unwrap();
    assert!(events.rows.is_empty() && events.next.is_none());
    let deliveries = store.deliveries(nobody, DeliveryListFilter::default(), None, 10).await.unwrap();
    assert!(deliveries.rows.is_empty() && deliveries.next.is_none());
    let dead = store.dead_letters(nobody, None, true, None, 10).await.unwrap();
    assert!(dead.rows.is_empty() && dead.next.is_none());
}
