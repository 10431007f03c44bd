//! The daily partitions of the large PostgreSQL tables: made in advance, and dropped when few rows are left in one, without
//! visible effects.

use crate::{
    fixture::{Backend, Fixture, NOW, attempt, dead, draft},
    postgres::Database,
    sqlite::block_on,
};
use posthaste::{
    domain::{
        id::{DeliveryId, EventId, first_id_at},
        outcome::OutcomeClass,
        time::Timestamp,
        verdict::DeadReason,
    },
    store::{
        CommitObservers, Store,
        queries::{DeliveryListFilter, EventFilter},
    },
};
use std::{sync::Arc, thread, time::Duration};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// The first of February 2024.
const OLD_DAY: i64 = 19_754;
const TABLES: [&str; 3] = ["events", "deliveries_ended", "attempts"];

impl Backend for Arc<Database> {
    fn open(&self, observers: CommitObservers, events_max: usize, bytes_max: usize) -> Store {
        (**self).open(observers, events_max, bytes_max)
    }
}

fn first_of(day: i64) -> i64 {
    first_id_at(Timestamp::from_millis(day * DAY_MS))
}

/// Makes a fixture and returns it with its database.
async fn fixture() -> (Arc<Database>, Fixture) {
    let database = Arc::new(Database::new());
    let fixture = Fixture::new(Box::new(database.clone())).await;
    (database, fixture)
}

fn partitions(database: &Database) -> String {
    database.run(
        "SELECT string_agg(CAST(inhrelid AS regclass)::text, ' ' ORDER BY inhrelid::regclass::text) FROM pg_inherits
         WHERE inhparent IN ('posthaste.events'::regclass, 'posthaste.deliveries_ended'::regclass, 'posthaste.attempts'::regclass)",
    )
}

/// Makes the partitions of `OLD_DAY`, as if long ago.
fn make_old_day(database: &Database) {
    let (low, high) = (first_of(OLD_DAY), first_of(OLD_DAY + 1));
    for table in TABLES {
        database.run(&format!(
            "CREATE TABLE posthaste.{table}_20240201 PARTITION OF posthaste.{table} FOR VALUES FROM ({low}) TO ({high})"
        ));
    }
}

/// Makes a dead letter with this event id, with its attempt.
async fn dead_letter(fixture: &Fixture, event: i64) -> DeliveryId {
    let id = fixture.publish(draft(fixture.app, &[fixture.endpoint], event)).await;
    let leased = fixture.lease(id, NOW).await;
    fixture.record(leased, dead(DeadReason::Exhausted), vec![attempt(OutcomeClass::Http, 500)]).await;
    id
}

async fn must_be_there(fixture: &Fixture, event: i64, delivery: DeliveryId) {
    let store = fixture.store();
    let own = EventId::from_i64(event);
    assert!(store.find_event(fixture.app, String::new(), Some(own)).await.unwrap().is_some());
    assert_eq!(fixture.history(delivery).await.len(), 1);
    let events = store.events(fixture.app, EventFilter::default(), None, 10).await.unwrap();
    assert_eq!(events.rows.iter().map(|event| event.id).collect::<Vec<_>>(), [own]);
    let all = store.deliveries(fixture.app, DeliveryListFilter::default(), None, 10).await.unwrap();
    let dead = store.dead_letters(fixture.app, None, false, None, 10).await.unwrap();
    for page in [all, dead] {
        assert_eq!(page.rows.iter().map(|listed| listed.delivery.id).collect::<Vec<_>>(), [delivery]);
    }
    assert_eq!(store.deliveries_of(own).await.unwrap().len(), 1);
}

#[test]
fn partitions_are_made_in_advance() {
    block_on(async {
        let (database, fixture) = fixture().await;
        let before = partitions(&database);
        assert_eq!(before.split(' ').count(), 3 * 4, "today, two more and the rest: {before}");
        let today = database.run("SELECT CAST(floor(extract(epoch FROM now()) / 86400) AS bigint)");
        let day = database.run("SELECT to_char((now() AT TIME ZONE 'UTC') + '2 days', 'YYYYMMDD')");
        database.run(&format!("DROP TABLE posthaste.events_{day}"));
        // The partition was not made in time: rows stored meanwhile are moved into it.
        let today = today.parse::<i64>().unwrap();
        let late = [first_of(today + 1), first_of(today + 2), first_of(today + 2) + 100, first_of(today + 3)];
        for id in late {
            fixture.publish(draft(fixture.app, &[fixture.endpoint], id)).await;
        }
        fixture.store().purge_deleted_apps().await.unwrap();
        assert_eq!(partitions(&database), before);
        for id in late {
            let found =
                fixture.store().find_event(fixture.app, String::new(), Some(EventId::from_i64(id))).await;
            assert!(found.unwrap().is_some());
        }
        let counted = database.run(&format!("SELECT count(*) FROM posthaste.events_{day}"));
        assert_eq!(counted, "2");
    });
}

#[test]
fn rows_of_no_partition_are_stored_all_the_same() {
    block_on(async {
        let (database, fixture) = fixture().await;
        for id in [3, first_of(OLD_DAY), first_of(30_000), i64::MAX - 70_000] {
            let delivery = dead_letter(&fixture, id).await;
            let found =
                fixture.store().find_event(fixture.app, String::new(), Some(EventId::from_i64(id))).await;
            assert!(found.unwrap().is_some());
            assert_eq!(fixture.history(delivery).await.len(), 1);
        }
        for table in TABLES {
            assert_eq!(database.run(&format!("SELECT count(*) FROM posthaste.{table}_rest")), "4", "{table}");
        }
    });
}

#[test]
fn rows_left_of_an_old_day_are_found_after_its_partition_is_dropped() {
    block_on(async {
        let (database, fixture) = fixture().await;
        make_old_day(&database);
        let event = first_of(OLD_DAY) + 65_536;
        let delivery = dead_letter(&fixture, event).await;
        for table in TABLES {
            assert_eq!(
                database.run(&format!("SELECT count(*) FROM posthaste.{table}_20240201")),
                "1",
                "{table}"
            );
        }
        fixture.store().purge_deleted_apps().await.unwrap();
        assert!(!partitions(&database).contains("20240201"));
        must_be_there(&fixture, event, delivery).await;
        crate::retention::keep_nothing_but(&fixture, |keep| &mut keep.attempts).await;
        fixture.wait_until_idle().await;
        assert_eq!(
            database.run("SELECT count(*) FROM posthaste.events"),
            "0",
            "retention goes on to find it"
        );
    });
}

#[test]
fn a_partition_with_many_rows_stays() {
    block_on(async {
        let (database, fixture) = fixture().await;
        make_old_day(&database);
        let first = first_of(OLD_DAY);
        database.run(&format!(
            "INSERT INTO posthaste.attempts (delivery, position, started_at, total_us, class)
             SELECT {first} + n, 1, 0, 0, 0 FROM generate_series(0, 10000) AS n"
        ));
        fixture.store().purge_deleted_apps().await.unwrap();
        assert!(partitions(&database).contains("attempts_20240201"));
        database.run(&format!("DELETE FROM posthaste.attempts WHERE delivery = {first}"));
        fixture.store().purge_deleted_apps().await.unwrap();
        assert!(!partitions(&database).contains("20240201"));
        assert_eq!(database.run("SELECT count(*) FROM posthaste.attempts"), "10000");
    });
}

#[test]
fn a_failure_between_moving_and_dropping_changes_nothing() {
    block_on(async {
        let (database, fixture) = fixture().await;
        make_old_day(&database);
        let event = first_of(OLD_DAY) + 65_536;
        let delivery = dead_letter(&fixture, event).await;
        let before = partitions(&database);
        // The last of three steps fails.
        for table in TABLES {
            database.run(&format!("CREATE VIEW on_{table} AS SELECT * FROM posthaste.{table}_20240201"));
        }
        fixture.store().purge_deleted_apps().await.unwrap();
        assert_eq!(partitions(&database), before);
        must_be_there(&fixture, event, delivery).await;
        database.run("DROP VIEW on_events, on_deliveries_ended, on_attempts");
        fixture.store().purge_deleted_apps().await.unwrap();
        assert!(!partitions(&database).contains("20240201"));
        must_be_there(&fixture, event, delivery).await;
    });
}

#[test]
fn a_kept_partition_of_one_table_does_not_keep_that_of_another() {
    block_on(async {
        let (database, fixture) = fixture().await;
        make_old_day(&database);
        database.run("CREATE VIEW of_theirs AS SELECT * FROM posthaste.events_20240201");
        let (low, high) = (first_of(OLD_DAY + 1), first_of(OLD_DAY + 2));
        database.run(&format!(
            "CREATE TABLE posthaste.events_20240202 PARTITION OF posthaste.events FOR VALUES FROM ({low}) TO ({high})"
        ));
        fixture.store().purge_deleted_apps().await.unwrap();
        let left = partitions(&database);
        let old: Vec<_> = left.split(' ').filter(|name| name.contains("2024")).collect();
        assert_eq!(old, ["events_20240201"]);
    });
}

#[test]
fn a_partition_in_use_is_dropped_the_next_time() {
    block_on(async {
        let (database, fixture) = fixture().await;
        make_old_day(&database);
        let event = first_of(OLD_DAY) + 65_536;
        let delivery = dead_letter(&fixture, event).await;
        let looking = thread::spawn({
            let database = database.clone();
            move || {
                database.run(
                    "BEGIN; LOCK TABLE posthaste.events, posthaste.deliveries_ended, posthaste.attempts IN ACCESS SHARE MODE;
                     SELECT pg_advisory_lock(1);
                     DO 'BEGIN WHILE NOT EXISTS (SELECT FROM pg_tables WHERE tablename = ''seen'') LOOP PERFORM pg_sleep(0.02); END LOOP; END'; COMMIT",
                )
            }
        });
        crate::postgres::wait_until("the other transaction reads", || {
            database
                .run("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 1 AND granted")
                == "1"
        });
        tokio::time::timeout(Duration::from_secs(3), fixture.store().purge_deleted_apps())
            .await
            .expect("no waiting")
            .unwrap();
        assert!(partitions(&database).contains("events_20240201"));
        must_be_there(&fixture, event, delivery).await;
        database.run("CREATE TABLE public.seen ()");
        looking.join().unwrap();
        fixture.store().purge_deleted_apps().await.unwrap();
        assert!(!partitions(&database).contains("20240201"));
        must_be_there(&fixture, event, delivery).await;
    });
}

#[test]
fn a_row_inserted_while_its_partition_is_made_is_stored() {
    block_on(async {
        let (database, fixture) = fixture().await;
        // The partition is finished once another transaction waits for it.
        let until_waited_for = "DO 'BEGIN FOR n IN 1..3000 LOOP PERFORM pg_sleep(0.02); EXIT WHEN EXISTS (SELECT FROM pg_locks
            JOIN pg_database d ON d.oid = database WHERE NOT granted AND datname = current_database()); ASSERT n < 3000; END LOOP; END'";
        let making = thread::spawn({
            let database = database.clone();
            let (low, high) = (first_of(OLD_DAY), first_of(OLD_DAY + 1));
            move || {
                database.run(&format!(
                    "BEGIN; CREATE TABLE posthaste.events_20240201 (LIKE posthaste.events INCLUDING ALL);
                     ALTER TABLE posthaste.events ATTACH PARTITION posthaste.events_20240201
                         FOR VALUES FROM ({low}) TO ({high});
                     SELECT pg_advisory_lock(2); {until_waited_for}; COMMIT"
                ))
            }
        });
        crate::postgres::wait_until("the day is being made", || {
            let made = "SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database
                 WHERE locktype = 'advisory' AND objid = 2 AND granted AND datname = current_database()";
            database.run(made) == "1"
        });
        dead_letter(&fixture, first_of(OLD_DAY) + 65_536).await;
        making.join().unwrap();
        assert_eq!(database.run("SELECT count(*) FROM posthaste.events_20240201"), "1");
    });
}
