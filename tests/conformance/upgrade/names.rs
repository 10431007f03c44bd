//! The migration that renamed tables and columns: stores of commit 80468f2, with a value in every column of every table, keep
//! every value under its new name.

use crate::fixture::NOW;
use posthaste::{
    domain::{
        api_key::Scope,
        audit::{AuditAction, AuditDetail},
        contract::Contract,
        encryption::Keyring,
        id::{AppId, EndpointId, KeyId},
        notice::MailState,
        outcome::OutcomeClass,
    },
    store::{Store, audit::AuditFilter, notices::NoticeFilter},
};

/// Tables that were renamed.
const TABLES: [(&str, &str); 9] = [
    ("purges", "app_deletions"),
    ("newest", "id_watermark"),
    ("accountable", "adjusted_clock"),
    ("ledger", "writer_batches"),
    ("clock", "config_version"),
    ("changes", "config_changes"),
    ("live", "deliveries_open"),
    ("done", "deliveries_ended"),
    ("moving", "sqlite_import"),
];

/// Columns that were renamed, by the former names of their tables.
const COLUMNS: [(&str, &str, &str); 39] = [
    ("purges", "done", "deleted_up_to"),
    ("accountable", "ours_at", "local_outage_at"),
    ("clock", "forgotten", "trimmed_version"),
    ("moving", "done", "finished"),
    ("endpoints", "off", "disabled"),
    ("endpoints", "headers", "encrypted_headers"),
    ("endpoints", "tls", "encrypted_tls"),
    ("secrets", "sealed", "encrypted"),
    ("keys", "shown", "prefix"),
    ("events", "given_id", "external_id"),
    ("audit", "thing", "object"),
    ("deliveries", "place", "retry_index"),
    ("deliveries", "lane", "queue"),
    ("deliveries", "at_due", "due_action"),
    ("deliveries", "okey", "ordering_key"),
    ("deliveries", "asked", "manual"),
    ("deliveries", "turn", "order_seq"),
    ("live", "place", "retry_index"),
    ("live", "lane", "queue"),
    ("live", "at_due", "due_action"),
    ("live", "okey", "ordering_key"),
    ("live", "asked", "manual"),
    ("live", "turn", "order_seq"),
    ("notices", "facts", "details"),
    ("notices", "mail", "email_state"),
    ("notices", "letter", "email_group"),
    ("notices", "mail_error", "email_error"),
    ("notices", "mailed_at", "emailed_at"),
    ("notices", "hook", "webhook_pending"),
    ("health", "told_by", "notified_channel"),
    ("health", "told_since", "notified_since"),
    ("statistics", "endings", "outcomes"),
    ("statistics", "unblamed", "dead_excused"),
    ("nodes", "slot", "id_slot"),
    ("nodes", "steady_since", "lease_unbroken_since"),
    ("nodes", "seen", "seen_version"),
    ("nodes", "free_hands", "free_permits"),
    ("nodes", "help", "overloaded_endpoints"),
    ("nodes", "knows", "schema_known"),
];

/// Columns of deliveries that are over, which stay empty by a check.
const EMPTY_WHEN_ENDED: [&str; 6] = ["lane", "due", "held_at", "return_to", "okey", "turn"];

fn new_table(table: &str) -> &str {
    TABLES.iter().find(|(was, _)| *was == table).map_or(table, |(_, is)| is)
}

fn new_column<'a>(table: &str, column: &'a str) -> &'a str {
    // Tables that have the same columns.
    let table = match table {
        "done" => "live",
        "statistics_by_type" => "statistics",
        other => other,
    };
    COLUMNS.iter().find(|(of, was, _)| (*of, *was) == (table, column)).map_or(column, |(.., is)| is)
}

/// A database whose tables can be listed and read.
pub(super) trait Tables {
    /// Its tables with their columns.
    fn columns(&self) -> Vec<(String, Vec<String>)>;

    /// All rows in one order, each value as PostgreSQL writes it as text, and nothing as itself.
    fn rows(&self, table: &str, columns: &[&str]) -> Vec<Vec<Option<String>>>;
}

/// Checks that `after` has every value of `before` under its new name, and nothing else.
pub(super) fn assert_kept(before: &impl Tables, after: &impl Tables) {
    let mut expected = Vec::new();
    for (table, columns) in before.columns() {
        let named: Vec<&str> = columns.iter().map(|column| new_column(&table, column)).collect();
        let was: Vec<&str> = columns.iter().map(String::as_str).collect();
        let mut rows = before.rows(&table, &was);
        for (at, column) in was.iter().enumerate() {
            let is_empty = rows.iter().all(|row| row[at].is_none());
            let may_be = table == "done" && EMPTY_WHEN_ENDED.contains(column);
            assert_eq!(is_empty, may_be, "{table}.{column} must hold something");
            // Two columns that are equal could change places.
            let values = |at: usize| rows.iter().map(|row| &row[at]).collect::<Vec<_>>();
            let twin = (0..was.len())
                .find(|other| *other != at && was[*other] != "only_row" && values(*other) == values(at));
            let is_renamed = named[at] != *column && !is_empty;
            assert_eq!(
                twin.filter(|_| is_renamed).map(|at| was[at]),
                None,
                "{table}.{column} is the same as"
            );
        }
        if table == "contracts" {
            let document = was.iter().position(|column| *column == "document").unwrap();
            for text in rows.iter_mut().flat_map(|row| &mut row[document]) {
                *text = text.replacen('{', "{\"format\":1,", 1);
            }
        }
        assert_eq!(after.rows(new_table(&table), &named), rows, "{table}");
        let mut named: Vec<String> = named.into_iter().map(str::to_owned).collect();
        named.sort();
        expected.push((new_table(&table).to_owned(), named));
    }
    let mut found = after.columns();
    for (_, columns) in &mut found {
        columns.sort();
    }
    found.sort();
    expected.sort();
    assert_eq!(found, expected, "the schema and the mapping differ");
}

/// Checks that what was stored by commit 80468f2 is read and goes on. Returns the largest id, the app and an endpoint.
pub(super) async fn assert_serves(store: &dyn Store) -> (i64, AppId, EndpointId) {
    let everything = store.config_snapshot().await.unwrap();
    let (app, full) =
        (&everything.apps[0], everything.endpoints.iter().find(|one| one.uid == "full").unwrap());
    assert_eq!((app.uid.as_str(), everything.endpoints.len()), ("shop", 9));
    let keyring = Keyring::parse("k1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").unwrap();
    let bound_to = format!("shop/{}", full.id);
    for encrypted in full.encrypted_parts() {
        keyring.decrypt(encrypted, &bound_to).unwrap();
    }
    let event = store.find_event(app.id, "paid-1".into(), None).await.unwrap().expect("an event of 80468f2");
    assert_eq!(&event.data[..], br#"{"total": 5}"#);
    let deliveries = store.deliveries_of(event.id).await.unwrap();
    assert!(deliveries.len() >= 9, "{}", deliveries.len());
    let mut contracts = 0;
    for listed in deliveries {
        let (_, attempts) = store.delivery(app.id, listed.delivery.id).await.unwrap().unwrap();
        for past in attempts.iter().filter(|past| past.attempt.outcome.class != OutcomeClass::Unknown) {
            let document = store.contract(past.attempt.contract).await.unwrap();
            let contract = Contract::from_json(&document.expect("the contract of an attempt")).unwrap();
            assert_eq!(contract.name, "standard");
            contracts += 1;
        }
    }
    assert!(contracts >= 5, "{contracts}");
    assert_lists(store, app.id).await;
    let newest = store.join(NOW).await.unwrap().newest_id;
    assert!(!store.find_queues().await.unwrap().is_empty(), "what waited is found");
    (newest, app.id, full.id)
}

/// Checks that every list of people reads its rows.
async fn assert_lists(store: &dyn Store, app: AppId) {
    let audit =
        store.audit(AuditFilter { app: Some(app), ..AuditFilter::default() }, None, 100).await.unwrap();
    let renamed = audit.rows.iter().find(|entry| entry.action == AuditAction::AppChanged).unwrap();
    assert_eq!(
        (renamed.object_id.as_str(), &renamed.detail),
        ("shop", &AuditDetail::of_fields(&["name".into()]))
    );
    let notices =
        store.notices(NoticeFilter { app: Some(app), ..NoticeFilter::default() }, None, 100).await.unwrap();
    let dead = notices.rows.iter().find(|notice| notice.digest.is_some()).unwrap();
    assert!(dead.count > 1 && dead.details.text.contains("dead letters"), "{dead:?}");
    assert!(notices.rows.iter().any(|notice| notice.mail == MailState::Sent && notice.mailed_at.is_some()));
    let keys = store.keys(KeyId::from_i64(0), 100).await.unwrap();
    assert!(keys.iter().any(|key| key.scope == Scope::App(app) && key.display_prefix.starts_with("phk_")));
    let replays = store.replays(app, None, 100).await.unwrap();
    assert!(replays.rows.iter().any(|replay| replay.selection.kind() == "backfill"), "{replays:?}");
    let dead = store.dead_letters(app, None, true, None, 100).await.unwrap();
    assert!(dead.rows.iter().any(|row| row.delivery.ordering_key.is_some()), "one blocks its group");
    let unhealthy = store.unhealthy_endpoints(app).await.unwrap();
    let health = store.health(app, unhealthy[0], NOW).await.unwrap();
    assert!(health.health.consecutive_failures > 0 && health.last_success_at.is_none(), "{health:?}");
}

pub(super) mod sqlite {
    use super::{Tables, assert_kept, assert_serves};
    use crate::{
        fixture::draft,
        sqlite::{block_on, new_location, open},
    };
    use posthaste::store::{
        DeliveryStore,
        sqlite::{encrypted_values, probe},
    };
    use rusqlite::{Connection, types::Value};
    use std::{fmt::Write as _, path::Path};

    const DUMP: &str = include_str!("80468f2.sqlite.sql");

    /// Makes a file of commit 80468f2.
    pub(in crate::upgrade) fn make(path: &Path) -> Connection {
        let file = Connection::open(path).unwrap();
        file.execute_batch(DUMP).unwrap();
        file
    }

    impl Tables for Connection {
        fn columns(&self) -> Vec<(String, Vec<String>)> {
            let list = |sql: &str| -> Vec<String> {
                let mut names = self.prepare(sql).unwrap();
                names.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
            };
            let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'";
            let columns = |table: String| {
                let columns = list(&format!("SELECT name FROM pragma_table_info('{table}')"));
                (table, columns)
            };
            list(tables).into_iter().map(columns).collect()
        }

        fn rows(&self, table: &str, columns: &[&str]) -> Vec<Vec<Option<String>>> {
            let mut rows = self.prepare(&format!("SELECT {} FROM {table}", columns.join(", "))).unwrap();
            let rows = rows.query_map([], |row| {
                let text = |at| match row.get_unwrap::<_, Value>(at) {
                    Value::Null => None,
                    Value::Text(text) => Some(text),
                    Value::Integer(number) => Some(number.to_string()),
                    Value::Blob(bytes) => Some(bytes.iter().fold("\\x".to_owned(), |mut text, byte| {
                        let _ = write!(text, "{byte:02x}");
                        text
                    })),
                    Value::Real(number) => panic!("{table} has {number}"),
                };
                Ok((0..columns.len()).map(text).collect())
            });
            let mut rows: Vec<_> = rows.unwrap().map(Result::unwrap).collect();
            rows.sort();
            rows
        }
    }

    #[test]
    fn every_value_of_a_file_is_kept_under_its_new_name() {
        let ((_folder, path), before) = (new_location(), make(Path::new(":memory:")));
        drop(make(&path));
        let found = |path: &Path| (encrypted_values(path), probe(path).unwrap().unwrap().newest_at);
        let known = found(&path);
        assert!(
            known.0.len() > 10 && known.1.is_some(),
            "posthaste check reads a file before it is upgraded"
        );
        drop(open(&path).unwrap());
        assert_eq!(found(&path), known);
        let after = Connection::open(&path).unwrap();
        assert_kept(&before, &after);
        assert_eq!(after.pragma_query_value(None, "user_version", |row| row.get(0)), Ok(6));
        assert_eq!(after.pragma_query_value(None, "integrity_check", |row| row.get(0)), Ok("ok".to_owned()));
        drop(after);
        let store = open(&path).unwrap();
        let (newest, app, endpoint) = block_on(assert_serves(&store));
        block_on(store.accept(vec![draft(app, &[endpoint], newest + 1)])).unwrap();
    }

    #[test]
    fn a_file_that_says_it_is_of_that_schema_and_has_other_tables_is_refused() {
        let (_folder, path) = new_location();
        let file = make(&path);
        file.execute_batch("ALTER TABLE audit RENAME COLUMN thing TO something").unwrap();
        drop(file);
        let refused = open(&path).err().expect("it is refused").to_string();
        assert!(refused.contains("its table audit is not the one of schema 5"), "{refused}");
        assert!(refused.contains("what was in it is unchanged"), "{refused}");
        let file = Connection::open(&path).unwrap();
        assert_eq!(file.pragma_query_value(None, "user_version", |row| row.get(0)), Ok(5));
        assert_eq!(file.query_row("SELECT count(*) FROM ledger", [], |row| row.get(0)), Ok(1));
    }
}

mod postgres {
    use super::{Tables, assert_kept, assert_serves};
    use crate::{
        postgres::{Database, open},
        sqlite::block_on,
    };
    use posthaste::{
        domain::database_address::DatabaseAddress,
        store::{QueryStore, postgres::probe},
    };

    const DUMP: &str = include_str!("80468f2.postgres.sql");
    /// Node rows, as they are when a node of the old version works.
    const ALIVE: &str = "UPDATE posthaste.nodes SET dead = 0, slot = 3, lease_until = 4102444800000;
        UPDATE posthaste.ledger SET writer = -1 - writer, fenced_at = NULL";

    impl Tables for Database {
        fn columns(&self) -> Vec<(String, Vec<String>)> {
            let list = |sql: &str| self.run(sql).lines().map(str::to_owned).collect::<Vec<_>>();
            let tables = "SELECT relname FROM pg_class WHERE relnamespace = 'posthaste'::regnamespace
                AND relkind IN ('r', 'p', 'v') AND NOT relispartition AND relname <> 'migrations'";
            let columns = |table: String| {
                let columns = list(&format!(
                    "SELECT attname FROM pg_attribute WHERE attrelid = 'posthaste.{table}'::regclass AND attnum > 0"
                ));
                (table, columns)
            };
            list(tables).into_iter().map(columns).collect()
        }

        fn rows(&self, table: &str, columns: &[&str]) -> Vec<Vec<Option<String>>> {
            let texts: Vec<String> = columns.iter().map(|column| format!("{column}::text")).collect();
            let sql = format!(
                "SELECT json_agg(row) FROM (SELECT json_build_array({}) AS row FROM posthaste.{table}) AS rows",
                texts.join(", ")
            );
            let mut rows: Vec<Vec<Option<String>>> =
                serde_json::from_str(&self.run(&sql)).unwrap_or_default();
            rows.sort();
            rows
        }
    }

    #[test]
    fn every_value_of_a_database_is_kept_under_its_new_name() {
        let (before, after) = (Database::restored(DUMP), Database::restored(DUMP));
        let found = || {
            let info = probe(&DatabaseAddress::parse(&after.address()).unwrap()).unwrap();
            (info.found.prepared, info.encrypted)
        };
        let (prepared, encrypted) = found();
        assert_eq!(
            (prepared, encrypted.len()),
            (4, 12),
            "posthaste check reads a database before it is upgraded"
        );
        drop(open(&after.address()).unwrap());
        assert_eq!(found(), (5, encrypted));
        // Two rows of the node that opened it and left.
        after.run("DELETE FROM posthaste.writer_batches WHERE epoch <> (SELECT epoch FROM posthaste.nodes)");
        assert_kept(&before, &after);
        let steps =
            "SELECT string_agg(number || '/' || oldest, ' ' ORDER BY number) FROM posthaste.migrations";
        assert_eq!(after.run(steps), "1/1 2/1 3/1 4/1 5/5");
        // Nothing keeps a former name: no table, partition, index or constraint, and no function.
        let former = "SELECT string_agg(name, ' ') FROM (SELECT relname::text FROM pg_class WHERE relnamespace = 'posthaste'::regnamespace
                UNION ALL SELECT conname::text FROM pg_constraint WHERE connamespace = 'posthaste'::regnamespace
                UNION ALL SELECT tgname::text FROM pg_trigger WHERE NOT tgisinternal
                UNION ALL SELECT proname::text FROM pg_proc WHERE pronamespace = 'posthaste'::regnamespace) AS named (name)
            WHERE name ~ '^(live|done|purges|newest|accountable|ledger|clock|changes|moving|forget)(_|$)'
                OR name ~ '(lane|okey|_first|behind|by_hand|letters|_mail|slot_key)' AND name NOT LIKE 'nodes_id_slot%'";
        assert_eq!(after.run(former), "");
        assert_eq!(after.run("SELECT posthaste.publish('shop', 'a.b', '1', 'own')"), "own");
        let store = open(&after.address()).unwrap();
        block_on(assert_serves(&store));
        assert_eq!(block_on(store.inbox_page()).unwrap().expect("it has an inbox").len(), 2);
    }

    #[test]
    fn a_database_is_not_renamed_while_a_node_of_the_old_version_lives() {
        let database = Database::restored(DUMP);
        database.run(ALIVE);
        let refused = open(&database.address()).err().expect("it is refused").to_string();
        assert!(refused.contains("1 nodes of an older version use the database"), "{refused}");
        assert!(refused.contains("stop all of them"), "{refused}");
        assert_eq!(
            database.run("SELECT count(*) FROM posthaste.ledger WHERE writer >= 0"),
            "2",
            "it is unchanged"
        );
        assert_eq!(database.run("SELECT max(number) FROM posthaste.migrations"), "4");
        // Its lease is over: it is fenced in the transaction of the renaming.
        database.run("UPDATE posthaste.nodes SET lease_until = 0");
        drop(open(&database.address()).unwrap());
        assert_eq!(database.run("SELECT min(writer) FROM posthaste.writer_batches"), "-2");
        assert_eq!(database.run("SELECT dead FROM posthaste.nodes"), "1");
    }
}
