//! The important statements use an index for any amount of data: the server logs each plan, and no request of people or of the
//! engine scans a whole table or a whole index. Writing avoids table scans by its settings, so a missing index shows there only
//! in the blocks read.

use crate::{
    explain_log::{ExplainServer, PlanLog, StatementPlan},
    fixture::{Fixture, NOW, after, attempt, retry_at},
    health::{EXHAUSTED, counted, plain},
    replays::{begin, deliveries, proceed_by},
    retention::{FixedRetention, an_hour},
    sqlite::block_on,
};
use posthaste::{
    domain::{
        delivery::DeliveryState,
        event::DedupSpace,
        id::{DeliveryId, EventId, first_id_at},
        ordering::OrderingKey,
        outcome::OutcomeClass,
        time::Timestamp,
        verdict::Verdict,
    },
    store::{
        deliveries::{Accepted, AdvanceRetries, AdvancedRetries, DeliveryResult},
        inbox::InboxBatch,
        queries::{DeliveryListFilter, EventFilter},
        retention::OverdueSearch,
    },
};
use std::{sync::Arc, time::Duration};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// The first of February 2024, and how many days there are from then on.
const FIRST_DAY: i64 = 19_754;
const DAYS: i64 = 10;
/// The sequence and the slot of an id.
const ID_STEP: i64 = 1 << 22;
/// Ordering groups of the fixture's endpoint, in which one of a hundred waits.
const GROUPS: i64 = 20;
/// Deliveries recorded, accepted from the inbox or expired at once.
const BATCH_SIZE: usize = 20;
/// Deliveries replayed by one page; each round finds others, of the few among the first ten thousand.
const REPLAYED: usize = 5;

/// Inserts `rows` events with a delivery, an attempt and a key each, spread over the days; some wait, and the inbox refused some.
fn insert_rows(server: &ExplainServer, fixture: &Fixture, rows: i64) {
    let first = |day: i64| first_id_at(Timestamp::from_millis(day * DAY_MS));
    for day in FIRST_DAY..FIRST_DAY + DAYS {
        for table in ["events", "deliveries_ended", "attempts"] {
            let (low, high, number) = (first(day), first(day + 1), 20_240_201 + day - FIRST_DAY);
            server.run(&format!(
                "CREATE TABLE {table}_{number} PARTITION OF {table} FOR VALUES FROM ({low}) TO ({high})"
            ));
        }
    }
    let (app, endpoint) = (fixture.app.as_i64(), fixture.endpoint.as_i64());
    let (from, step) = (first(FIRST_DAY), DAYS * DAY_MS / rows * ID_STEP);
    let ids = format!(
        "(SELECT n, {from} + n * {step} AS id FROM generate_series(0, {rows}::bigint - 1) AS n) AS made"
    );
    server.run(&format!(
            "INSERT INTO events (id, app, type, created_at, accepted_at, skipped, data)
                 SELECT id, CASE n % 100 WHEN 0 THEN {app} ELSE n % 100 END, 'a.b', 0, 0, 0, '{{}}' FROM {ids};
             INSERT INTO deliveries_ended (id, app, event, endpoint, state, reason, retry_index, attempt_count, history_len, due_action, finished_at)
                 SELECT id + 1, CASE n % 100 WHEN 0 THEN {app} ELSE n % 100 END, id, {endpoint},
                     CASE n % 50 WHEN 0 THEN 5 ELSE 4 END, CASE n % 50 WHEN 0 THEN 0 END, 0, 1, 1, 0, n FROM {ids};
             INSERT INTO attempts (delivery, position, started_at, total_us, class) SELECT id + 1, 1, 0, 0, 0 FROM {ids};
             INSERT INTO dedup (key, event, fingerprint) SELECT decode(md5(n::text), 'hex'), id, '' FROM {ids};
             INSERT INTO inbox (app, type, data, event_id, error) SELECT {app}, 't', '1', n, 'refused' FROM {ids} WHERE n % 20 = 0;
             INSERT INTO deliveries_open (id, app, event, endpoint, state, retry_index, attempt_count, history_len, queue, due, due_action)
                 SELECT id + 2, {app}, id, {endpoint} + n % 500 * 10, 0, 0, 0, 0, {endpoint} + n % 500 * 10, n, 0
                 FROM {ids} WHERE n % 20 < 2;
             INSERT INTO deliveries_open (id, app, event, endpoint, state, retry_index, attempt_count, history_len, queue, due, due_action, ordering_key, order_seq)
                 SELECT id + 3, {app}, id, {endpoint}, 0, 0, 0, 0, {endpoint}, 253402300799000, 0, n / 100 % {GROUPS}, n
                 FROM {ids} WHERE n % 100 = 7"
        ));
    server.run("ANALYZE events; ANALYZE deliveries_ended; ANALYZE attempts; ANALYZE deliveries_open; ANALYZE dedup; ANALYZE inbox");
}

/// Adds two deliveries to an ordering group in which others wait, and delivers the leased one, so that the next is promoted.
async fn pass_through_group(fixture: &mut Fixture, ordering_key: OrderingKey) {
    for _ in 0..2 {
        let mut new = fixture.one_with_permit();
        new.deliveries[0].delivery.ordering_key = Some(ordering_key);
        fixture.publish(new).await;
    }
    let leased = fixture.only_leased();
    fixture.record(leased, Verdict::Delivered, vec![attempt(OutcomeClass::Ok, 200)]).await;
}

/// Checks that both ends of a group's queue are found in the index, without a sort.
fn check_group_index(plans: &[StatementPlan]) {
    let is_it = |plan: &&StatementPlan| {
        plan.query.contains("ORDER BY order_seq DESC") || plan.query.contains("ORDER BY d.order_seq")
    };
    let plans: Vec<_> = plans.iter().filter(is_it).collect();
    assert_eq!(plans.len(), 4, "of two that join, and twice when the first ends");
    for StatementPlan { text, .. } in plans {
        assert!(text.contains("deliveries_open_order_queue") && !text.contains("\"Sort\""), "{text}");
    }
}

/// Runs the requests of people.
async fn run_manual_requests(fixture: &mut Fixture, notes: &mut PlanLog<'_>) {
    let event = first_id_at(Timestamp::from_millis(FIRST_DAY * DAY_MS));
    let (own, delivery) = (EventId::from_i64(event), DeliveryId::from_i64(event + 1));
    let store = fixture.store();
    assert!(store.find_event(fixture.app, String::new(), Some(own)).await.unwrap().is_some());
    notes.take("an event by its id", POINT_LIMITS);
    assert!(store.delivery(fixture.app, delivery).await.unwrap().is_some());
    notes.take("a delivery by its id", POINT_LIMITS);
    assert_eq!(store.deliveries_of(own).await.unwrap().len(), 2);
    notes.take("the deliveries of an event", POINT_LIMITS);
    assert!(!store.events(fixture.app, EventFilter::default(), None, 10).await.unwrap().rows.is_empty());
    notes.take("events, newest first", LIST_LIMITS);
    store.deliveries(fixture.app, DeliveryListFilter::default(), None, 10).await.unwrap();
    notes.take("deliveries, newest first", LIST_LIMITS);
    assert!(!store.dead_letters(fixture.app, None, false, None, 10).await.unwrap().rows.is_empty());
    notes.take("dead letters", LIST_LIMITS);
    let dead = deliveries(Some(fixture.endpoint), None, &[DeliveryState::Dead]);
    let replay = begin(fixture, dead).await;
    notes.take("a replay is begun", POINT_LIMITS);
    assert_eq!(proceed_by(fixture, &replay, REPLAYED).await.replayed, REPLAYED as u64);
    notes.take("a page of a replay", SHARD_LIMITS);
    drop(fixture.recorder.take_waiting());
}

/// Runs the requests of products and of the engine.
async fn run_engine_requests(fixture: &mut Fixture, notes: &mut PlanLog<'_>, rows: i64, round: i64) {
    let endpoint = fixture.endpoint;
    let queues = fixture.store().find_queues().await.unwrap();
    assert_eq!(queues.len(), 50);
    notes.take("queues", SHARD_LIMITS);
    let queues = queues.into_iter().map(|(queue, _)| queue).collect();
    assert_eq!(fixture.store().queue(queues, None, 10).await.unwrap().rows.len(), 10);
    notes.take("what is next in all queues", POINT_LIMITS);
    assert_eq!(
        fixture.store().queues_with_due(vec![endpoint], after(rows as u64)).await.unwrap(),
        [endpoint]
    );
    notes.take("queues behind", POINT_LIMITS);
    fixture.store().in_flight_elsewhere(vec![endpoint]).await.unwrap();
    notes.take("what is carried elsewhere", POINT_LIMITS);
    fixture.refill(endpoint, 5, after(rows as u64)).await;
    notes.take("a refill", POINT_LIMITS);
    drop(fixture.recorder.take_leased());

    let key = fixture.dedup(DedupSpace::EventId, &format!("round {round}"));
    for is_new in [true, false] {
        let mut new = fixture.one_with_permit();
        new.dedup = vec![key];
        assert_eq!(fixture.accept(new).await == Accepted::New, is_new);
    }
    notes.take("an event with a key, twice", POINT_LIMITS);
    let new = (1..BATCH_SIZE).map(|_| fixture.one_with_permit()).collect();
    fixture.store().accept(new).await.unwrap();
    fixture.wait_until_idle().await;
    notes.take("many events", SHARD_LIMITS);
    let leased = fixture.recorder.take_leased();
    assert_eq!(leased.len(), BATCH_SIZE);
    for leased in leased {
        let (attempts, verdict) = (vec![attempt(OutcomeClass::Ok, 200)], Verdict::Delivered);
        let (disable, health_sample, ended_at, contract) = (None, None, after(1), None);
        fixture.store().record_result(DeliveryResult {
            leased,
            attempts,
            verdict,
            disable,
            health_sample,
            ended_at,
            contract,
        });
    }
    fixture.wait_until_idle().await;
    notes.take("many successes", SHARD_LIMITS);
    fail(fixture, notes).await;

    notes.server.run(&format!(
        "INSERT INTO inbox (app, type, data, event_id) SELECT {}, 't', '1', n FROM generate_series(1, {BATCH_SIZE}) AS n",
        fixture.app.as_i64()
    ));
    let waiting = fixture.store().inbox_page().await.unwrap().unwrap();
    assert_eq!(waiting.len(), BATCH_SIZE);
    let events = waiting.iter().map(|submission| (submission.number, fixture.one_event())).collect();
    fixture.store().accept_inbox(InboxBatch { events, ..InboxBatch::default() }).await.unwrap();
    fixture.wait_until_idle().await;
    notes.take("an inbox", SHARD_LIMITS);
    drop(fixture.recorder.take_waiting());

    // Behind the rows that the other requests read.
    let middle = first_id_at(Timestamp::from_millis((FIRST_DAY + DAYS / 2) * DAY_MS));
    let search = OverdueSearch { after_id: middle, to_id: i64::MAX, most: BATCH_SIZE as u32 };
    let keeps = Arc::new(FixedRetention(an_hour(), None));
    let overdue = fixture.store().overdue(search, keeps.clone(), NOW).await.unwrap();
    assert!(!overdue.ranges.is_empty());
    notes.take("what is overdue", SHARD_LIMITS);
    let expired = fixture.store().expire(overdue.ranges, keeps, NOW).await.unwrap();
    // Deliveries that still wait end first, and are removed the next time.
    assert!(expired.events > 0);
    notes.take("what expires", SHARD_LIMITS);
}

/// Releases one delivery unsent and fails the others: half of these become dead, and the other half wait until they are advanced.
async fn fail(fixture: &mut Fixture, notes: &mut PlanLog<'_>) {
    let new = (0..=BATCH_SIZE).map(|_| fixture.one_with_permit()).collect();
    fixture.store().accept(new).await.unwrap();
    fixture.wait_until_idle().await;
    notes.take("many events", SHARD_LIMITS);
    let mut leased = fixture.recorder.take_leased();
    assert_eq!(leased.len(), BATCH_SIZE + 1);
    drop(fixture.recorder.take_waiting());
    let unsent = leased.pop().unwrap();
    fixture.store().release(vec![unsent], after(1)).await.unwrap();
    fixture.wait_until_idle().await;
    assert_eq!(fixture.recorder.take_waiting(), [(fixture.endpoint, NOW)]);
    notes.take("one handed back", POINT_LIMITS);
    let (contract, verdicts) = (plain(), [retry_at(after(60)), EXHAUSTED].into_iter().cycle());
    for (leased, verdict) in leased.into_iter().zip(verdicts) {
        fixture.store().record_result(counted(leased, verdict, &contract, after(1)));
    }
    fixture.wait_until_idle().await;
    notes.take("many failures", SHARD_LIMITS);
    let behind = (after(10), DeliveryId::from_i64(0));
    let recovery = AdvanceRetries {
        endpoint: fixture.endpoint,
        recovered_at: behind.0,
        after: behind,
        most: BATCH_SIZE,
    };
    let advanced = fixture.store().advance_retries(recovery, after(11)).await.unwrap();
    assert_eq!(advanced, AdvancedRetries { count: BATCH_SIZE / 2, next: None });
    fixture.wait_until_idle().await;
    notes.take("retries brought forward", SHARD_LIMITS);
    drop(fixture.recorder.take_waiting());
}

/// Runs all requests. Each round uses an ordering group of its own, before an expiry changes its head.
async fn run_all_requests(fixture: &mut Fixture, notes: &mut PlanLog<'_>, rows: i64, round: i64) {
    pass_through_group(fixture, OrderingKey::from_i64(round)).await;
    notes.take("a line", POINT_LIMITS);
    run_manual_requests(fixture, notes).await;
    run_engine_requests(fixture, notes, rows, round).await;
}

/// Limits of a statement: blocks, and rows passed over. They do not grow with the amount of data.
const POINT_LIMITS: (u64, u64) = (300, 100);
/// Limits for statements that may pass over the 256 shards.
const SHARD_LIMITS: (u64, u64) = (2_000, 1_000);
/// Limits for a list. If its first rows do not fill it, it reads a thousand more, each with its event.
const LIST_LIMITS: (u64, u64) = (10_000, 2_000);

async fn check_plans(rows: i64) -> (Fixture, ExplainServer) {
    let server = ExplainServer::new();
    let mut fixture = Fixture::new(Box::new(server.clone())).await;
    insert_rows(&server, &fixture, rows);
    let mut notes = PlanLog::of(&server);
    // More often than the server needs to settle on a generic plan.
    for round in 0..7 {
        run_all_requests(&mut fixture, &mut notes, rows, round).await;
        let of_line = notes.taken.iter().rfind(|answered| answered.what == "a line");
        check_group_index(&of_line.unwrap().plans);
    }
    fixture.reopen();
    assert_eq!(fixture.store().join(NOW).await.unwrap().taken_over, 35);
    notes.take("a takeover", SHARD_LIMITS);
    for answered in &notes.taken {
        let said = answered.first_excess().map(|plan| &plan.text);
        assert!(said.is_none(), "{}: {}", answered.figures(), said.unwrap());
    }
    (fixture, server)
}

/// Returns the operations that do not show the missing index.
fn unaffected(index: &str, notes: &PlanLog<'_>, by: &[&'static str]) -> Vec<String> {
    let seen = notes.taken.iter().filter(|answered| answered.first_excess().is_some());
    let seen: Vec<_> = seen.map(|answered| answered.what).collect();
    println!("control, without {index}: {}", seen.join(", "));
    by.iter().filter(|&what| !seen.contains(what)).map(|what| format!("{index} by {what}")).collect()
}

/// The control: without its index each of these operations exceeds its limits.
async fn control((mut fixture, server): (Fixture, ExplainServer), rows: i64) {
    let mut unmissed = Vec::new();
    for (round, (index, by)) in (7..).zip([
        (
            "deliveries_open_by_queue",
            ["a refill", "what is next in all queues", "retries brought forward"].as_slice(),
        ),
        ("deliveries_open_later", &["the deliveries of an event"]),
        ("deliveries_ended_dead", &["dead letters"]),
        ("deliveries_open_order_queue", &["a line"]),
        ("inbox_by_app", &["an inbox"]),
        ("deliveries_open_order_head", &["a line"]),
    ]) {
        server.toggle(index);
        let mut notes = PlanLog::of(&server);
        run_all_requests(&mut fixture, &mut notes, rows, round).await;
        server.toggle(index);
        unmissed.extend(unaffected(index, &notes, by));
    }
    // Many other operations would take long without this index.
    server.toggle("deliveries_open_pkey");
    let mut notes = PlanLog::of(&server);
    fail(&mut fixture, &mut notes).await;
    server.toggle("deliveries_open_pkey");
    unmissed.extend(unaffected("deliveries_open_pkey", &notes, &["one handed back", "many failures"]));
    assert!(unmissed.is_empty(), "no operation misses {unmissed:?}");
}

#[test]
fn important_statements_use_an_index_with_a_million_rows() {
    block_on(async { control(check_plans(1_000_000).await, 1_000_000).await });
}

#[test]
#[ignore = "soak: ten million rows take minutes to furnish"]
fn important_statements_use_an_index_with_ten_million_rows() {
    block_on(async { drop(check_plans(10_000_000).await) });
}

#[test]
fn rows_taken_from_a_queue_are_not_read_again_under_a_snapshot() {
    block_on(async {
        let server = ExplainServer::new();
        let mut fixture = Fixture::new(Box::new(server.clone())).await;
        let waiting = fixture.waiting().await.as_i64();
        let (queue, first) = (fixture.endpoint, waiting + 1_000_000);
        let copy = |rows: &str| {
            server.run(&format!(
                "INSERT INTO deliveries_open (id, app, event, endpoint, state, retry_index, attempt_count, history_len, queue, due, due_action)
                     SELECT {first} + n, app, event, endpoint, state, retry_index, attempt_count, history_len, queue, n, due_action
                     FROM deliveries_open, {rows} AS n WHERE id = {waiting}"
            ))
        };
        copy("generate_series(1, 60000)");
        let snapshot = server.snapshot().await;
        server.run(&format!("DELETE FROM deliveries_open WHERE id BETWEEN {first} AND {first} + 50000; ANALYZE deliveries_open"));
        let mut most = Vec::new();
        for _ in 0..3 {
            let written = server.written();
            assert!(fixture.refill(queue, 5, after(60)).await.next_due.is_some());
            assert_eq!(fixture.recorder.take_leased().len(), 5);
            most.push(server.since(written).iter().map(|plan| plan.blocks).max().unwrap());
        }
        println!("blocks of the dearest statement: {most:?}");
        assert!(most[0] > 1_000, "else this shows nothing: {most:?}");
        assert!(most[1..].iter().all(|blocks| *blocks < POINT_LIMITS.0), "{most:?}");
        // An older delivery enters the queue and is found when no other is left in it.
        server.run(&format!("DELETE FROM deliveries_open WHERE id > {first} AND queue > 0"));
        copy("generate_series(-7, -7)");
        assert_eq!(fixture.refill(queue, 5, after(0)).await.next_due, Some(Timestamp::from_millis(-7)));
        drop(fixture.recorder.take_leased());
        fixture.refill(queue, 5, after(0)).await;
        assert_eq!(fixture.only_leased().delivery.id.as_i64(), first - 7);
        drop(snapshot);
    });
}

#[test]
fn a_statistics_row_is_found_by_its_key_with_any_table_statistics() {
    block_on(async {
        let server = ExplainServer::new();
        let mut fixture = Fixture::new(Box::new(server.clone())).await;
        for counted in ["SELECT 1", "ANALYZE statistics; ANALYZE statistics_by_type"] {
            server.run(counted);
            // More often than the server needs to settle on a generic plan.
            for _ in 0..7 {
                let (written, new) = (server.written(), fixture.one_event());
                fixture.accept(new).await;
                fixture.store().roll_up(Duration::ZERO, after(1)).await.unwrap();
                let plans = server.since(written);
                let plans: Vec<_> =
                    plans.iter().filter(|plan| plan.query.contains("given.position FROM")).collect();
                assert_eq!(plans.len(), 2, "of endpoints and of event types");
                for StatementPlan { text, .. } in plans {
                    assert!(text.contains("_pkey") && !text.contains("_by_age"), "{text}");
                }
            }
        }
    });
}
