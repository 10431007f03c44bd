//! The statements that matter use an index, however much there is: the server writes down how it answered each, and nothing that is
//! asked for by people or by the engine goes through a whole table.

use crate::{
    database::Server,
    sqlite::{NoWatch, block_on},
    stage::{Backend, NOW, Stage, after, attempt},
};
use posthaste::{
    domain::{
        id::{DeliveryId, EventId, first_id_at},
        order::OrderKey,
        outcome::Class,
        port::Handover,
        time::Timestamp,
        verdict::Verdict,
    },
    store::{
        Store,
        browse::{DeliveryFilter, EventFilter},
        postgres::{Address, PostgresStore, QueueLimits},
    },
};
use std::{fs, sync::Arc, time::Duration};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// The first of February 2024, and how many days there are from then on.
const FIRST_DAY: i64 = 19_754;
const DAYS: i64 = 10;
/// The sequence and the slot of an id.
const ID_STEP: i64 = 1 << 22;
/// Lines of the stage's endpoint, in which one of a hundred waits.
const LINES: i64 = 10;
const OPTIONS: &str = "-c session_preload_libraries=auto_explain -c auto_explain.log_min_duration=0";

#[derive(Clone)]
struct Explained(Arc<Server>);

impl Backend for Explained {
    fn open(&self, handover: Arc<dyn Handover>, events_max: usize, bytes_max: usize) -> Arc<dyn Store> {
        let limits = QueueLimits { events_max, bytes_max };
        let address = Address::parse(&self.0.address("postgres")).unwrap();
        Arc::new(PostgresStore::open(&address, handover, Arc::new(NoWatch), limits, Duration::ZERO).unwrap())
    }
}

impl Explained {
    fn run(&self, sql: &str) -> String {
        self.0.run("postgres", &format!("SET search_path = posthaste; {sql}")).unwrap()
    }

    fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(format!("{}/log", self.0.folder)).unwrap()).into_owned()
    }

    /// So many events with a delivery and an attempt each, spread over the days, and some that wait.
    fn furnish(&self, stage: &Stage, rows: i64) {
        let first = |day: i64| first_id_at(Timestamp::from_millis(day * DAY_MS));
        for day in FIRST_DAY..FIRST_DAY + DAYS {
            for table in ["events", "done", "attempts"] {
                let (low, high, number) = (first(day), first(day + 1), 20_240_201 + day - FIRST_DAY);
                self.run(&format!(
                    "CREATE TABLE {table}_{number} PARTITION OF {table} FOR VALUES FROM ({low}) TO ({high})"
                ));
            }
        }
        let (app, endpoint) = (stage.app.as_i64(), stage.endpoint.as_i64());
        let (from, step) = (first(FIRST_DAY), DAYS * DAY_MS / rows * ID_STEP);
        let ids =
            format!("(SELECT n, {from} + n * {step} AS id FROM generate_series(0, {rows} - 1) AS n) AS made");
        self.run(&format!(
            "INSERT INTO events (id, app, type, created_at, accepted_at, skipped, data)
                 SELECT id, CASE n % 100 WHEN 0 THEN {app} ELSE n % 100 END, 'a.b', 0, 0, 0, '{{}}' FROM {ids};
             INSERT INTO done (id, app, event, endpoint, state, reason, place, attempt_count, history_len, at_due, finished_at)
                 SELECT id + 1, CASE n % 100 WHEN 0 THEN {app} ELSE n % 100 END, id, {endpoint},
                     CASE n % 50 WHEN 0 THEN 5 ELSE 4 END, CASE n % 50 WHEN 0 THEN 0 END, 0, 1, 1, 0, n FROM {ids};
             INSERT INTO attempts (delivery, position, started_at, total_us, class) SELECT id + 1, 1, 0, 0, 0 FROM {ids};
             INSERT INTO live (id, app, event, endpoint, state, place, attempt_count, history_len, lane, due, at_due)
                 SELECT id + 2, {app}, id, {endpoint} + n % 500 * 10, 0, 0, 0, 0, {endpoint} + n % 500 * 10, n, 0
                 FROM {ids} WHERE n % 20 < 2;
             INSERT INTO live (id, app, event, endpoint, state, place, attempt_count, history_len, lane, due, at_due, okey, turn)
                 SELECT id + 3, {app}, id, {endpoint}, 0, 0, 0, 0, {endpoint}, 253402300799000, 0, n / 100 % {LINES}, n
                 FROM {ids} WHERE n % 100 = 7"
        ));
        self.run("ANALYZE events; ANALYZE done; ANALYZE attempts; ANALYZE live");
    }
}

/// Nothing that has rows was gone through from one end to the other.
fn must_use_indexes(what: &str, said: &str) {
    let tables = ["events_2024", "done_2024", "attempts_2024", "live"];
    assert!(tables.iter().any(|table| said.contains(table)), "{what}: nothing was explained");
    for table in tables {
        assert!(!said.contains(&format!("Seq Scan on {table}")), "{what}: {said}");
    }
}

/// One leads a line in which others wait, another joins behind them all, and the next of them steps up when the first ends.
async fn go_through_line(stage: &mut Stage, okey: OrderKey) {
    for _ in 0..2 {
        let mut new = stage.one_in_hand();
        new.births[0].delivery.okey = Some(okey);
        stage.publish(new).await;
    }
    let carried = stage.only_carried();
    stage.record(carried, Verdict::Delivered, vec![attempt(Class::Ok, 200)]).await;
}

/// Both ends of those behind in a line are found where they are in the index, and nothing is sorted for that.
fn must_go_by_turns(said: &str) {
    let is_it = |plan: &&str| plan.contains("ORDER BY turn DESC") || plan.contains("ORDER BY d.turn");
    let plans: Vec<_> = said.split("LOG:  duration").filter(is_it).collect();
    assert_eq!(plans.len(), 4, "of two that join, and twice when the first ends");
    for plan in plans {
        assert!(plan.contains("live_behind") && !plan.contains("Sort"), "{plan}");
    }
}

async fn look_at_plans(rows: i64) {
    let server = Explained(Arc::new(Server::with(OPTIONS)));
    let mut stage = Stage::new(Box::new(server.clone())).await;
    server.furnish(&stage, rows);
    let event = first_id_at(Timestamp::from_millis(FIRST_DAY * DAY_MS));
    let (own, delivery) = (EventId::from_i64(event), DeliveryId::from_i64(event + 1));
    let mut seen = server.log().len();
    let mut check = |what: &str| {
        let log = server.log();
        let said = log[seen..].to_owned();
        must_use_indexes(what, &said);
        seen = log.len();
        said
    };
    // More often than it takes the server to settle for one plan.
    for round in 0..7 {
        let store = stage.store();
        assert!(store.find_event(stage.app, String::new(), Some(own)).await.unwrap().is_some());
        check("an event by its id");
        assert!(store.delivery(stage.app, delivery).await.unwrap().is_some());
        check("a delivery by its id");
        assert_eq!(store.deliveries_of(own).await.unwrap().len(), 2);
        check("the deliveries of an event");
        assert!(!store.events(stage.app, EventFilter::default(), None, 10).await.unwrap().rows.is_empty());
        check("events, newest first");
        store.deliveries(stage.app, DeliveryFilter::default(), None, 10).await.unwrap();
        check("deliveries, newest first");
        assert!(!store.dead_letters(stage.app, None, false, None, 10).await.unwrap().rows.is_empty());
        check("dead letters");
        assert_eq!(store.find_lanes().await.unwrap().len(), 50);
        check("lanes");
        stage.refill(stage.endpoint, 5, after(rows as u64)).await;
        check("a refill");
        drop(stage.recorder.take_carried());
        go_through_line(&mut stage, OrderKey::from_i64(round)).await;
        must_go_by_turns(&check("a line"));
    }
    stage.reopen();
    assert_eq!(stage.store().join(NOW).await.unwrap().taken_over, 35);
    check("a takeover");
}

#[test]
fn the_statements_that_matter_use_an_index_beside_a_million_rows() {
    block_on(look_at_plans(1_000_000));
}

#[test]
#[ignore = "soak: ten million rows take minutes to furnish"]
fn the_statements_that_matter_use_an_index_beside_ten_million_rows() {
    block_on(look_at_plans(10_000_000));
}

#[test]
fn a_row_of_statistics_is_found_by_its_key_whatever_the_server_has_counted() {
    block_on(async {
        let server = Explained(Arc::new(Server::with(OPTIONS)));
        let mut stage = Stage::new(Box::new(server.clone())).await;
        for counted in ["SELECT 1", "ANALYZE statistics; ANALYZE statistics_by_type"] {
            server.run(counted);
            // More often than it takes the server to settle for one plan.
            for _ in 0..7 {
                let (seen, new) = (server.log().len(), stage.one());
                stage.accept(new).await;
                stage.store().roll_up(Duration::ZERO, after(1)).await.unwrap();
                let log = server.log();
                let is_it = |said: &&str| said.contains("given.place FROM");
                let plans: Vec<_> = log[seen..].split("LOG:  duration").filter(is_it).collect();
                assert_eq!(plans.len(), 2, "of endpoints and of event types");
                for plan in plans {
                    assert!(plan.contains("_pkey") && !plan.contains("_by_age"), "{plan}");
                }
            }
        }
    });
}
