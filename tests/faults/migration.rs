//! Migration of a file store into a database by the real binary: complete, also after a kill, and never into a database that is
//! not its copy.

use crate::harness::{Behaviour, NodeFolder, TestReceiver, database::TestDatabaseServer, wait_until};
use rusqlite::Connection;
use serde_json::{Value, json};
use std::time::Duration;

const WAIT_LIMIT: Duration = Duration::from_mins(1);
/// So many that a kill falls into the middle of their copying.
const BATCHES: usize = 24;
const EVENTS: usize = BATCHES * 500 + 5;

/// Fills a store and kills the server while a delivery is in flight. Returns the deliveries before the kill.
async fn fill_store(home: &NodeFolder, receiver: &TestReceiver) -> Vec<Value> {
    receiver.behave("/dead", Behaviour::Status(500));
    receiver.behave("/hang", Behaviour::Hang);
    let mut node = home.start().await;
    node.client.make_app("shop").await;
    let soon =
        json!({ "overrides": { "retry": { "waits": ["10ms"], "jitter": "none" } }, "event_types": ["rare"] });
    node.client.make_endpoint("shop", "ok", &receiver.url("/ok"), json!({})).await;
    node.client.make_endpoint("shop", "dead", &receiver.url("/dead"), soon).await;
    for batch in 0..BATCHES {
        let event = |n| {
            let event_type = if n == 250 && batch < 2 { "rare" } else { "t" };
            let data = json!({ "n": n, "text": "a\u{0}b\u{10ffff}" });
            json!({ "id": format!("b{batch}n{n}"), "type": event_type, "key": "k", "data": data })
        };
        let events: Vec<Value> = (0..500).map(event).collect();
        node.client.post("/v1/apps/shop/events/batch", &json!({ "events": events })).await.expect(200);
    }
    let all = "/v1/apps/shop/deliveries?status=pending,retrying,in_flight";
    wait_until("all have ended", WAIT_LIMIT, async || node.client.list(all).await.is_empty()).await;
    let line = json!({ "ordered": "key" });
    node.client.make_endpoint("shop", "line", &receiver.url("/hang"), line).await;
    for n in 0..5 {
        node.client
            .publish("shop", &json!({ "id": format!("late{n}"), "type": "t", "key": "k", "data": n }))
            .await;
    }
    wait_until("one is in flight", WAIT_LIMIT, async || receiver.open_at("/hang") == 1).await;
    wait_until("only the ordering group waits", WAIT_LIMIT, async || node.client.list(all).await.len() == 5)
        .await;
    let before = node.client.list("/v1/apps/shop/deliveries").await;
    node.kill().await;
    // As if the clock had gone backwards meanwhile: their order in the ordering group differs from that of their ids.
    let reverse = "UPDATE deliveries SET order_seq = 9 - order_seq WHERE order_seq IS NOT NULL";
    assert_eq!(Connection::open(home.store()).unwrap().execute(reverse, []).unwrap(), 4);
    before
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_is_migrated_completely_also_after_a_kill_in_the_middle() {
    let (server, receiver, mut home) =
        (TestDatabaseServer::start(), TestReceiver::start().await, NodeFolder::new());
    let before = fill_store(&home, &receiver).await;
    let (from, to) = (format!("sqlite:{}", home.store().display()), server.address("postgres"));
    let run = |sql: &str| server.run("postgres", sql);
    let migrate = |home: &NodeFolder| home.spawn(&[], &["migrate", "--from", &from, "--to", &to]);

    // The state after an interrupted roll-up.
    let file = Connection::open(home.store()).unwrap();
    file.execute_batch(
        "DELETE FROM statistics_log; INSERT INTO statistics_log (id, document) VALUES (-1, '[]')",
    )
    .unwrap();
    drop(file);
    let mut killed = migrate(&home);
    let is_half = async || run("SELECT count(*) FROM posthaste.events").is_ok_and(|count| count != "0");
    wait_until("some of it is copied", WAIT_LIMIT, is_half).await;
    killed.kill().await;
    let copied: usize = run("SELECT count(*) FROM posthaste.events").unwrap().parse().unwrap();
    println!("killed after {copied} events");
    assert!(copied < EVENTS, "the kill came too late: {copied}");
    let mut early = home.spawn(&[], &["serve", "--store", &to]);
    assert_eq!(early.exited().await.code(), Some(1));
    assert!(early.log().contains("is not all there"), "{}", early.log());

    let mut again = migrate(&home);
    assert_eq!(again.exited().await.code(), Some(0), "{}", again.log());
    let said = again.log();
    assert!(
        said.contains("moved and verified") && said.contains(&format!("events: {EVENTS} of {EVENTS}")),
        "{said}"
    );
    let mut twice = migrate(&home);
    assert_eq!(twice.exited().await.code(), Some(1));
    assert!(twice.log().contains("was moved into this database before"), "{}", twice.log());

    let file = Connection::open(home.store()).unwrap();
    let states = "SELECT group_concat(line) FROM (SELECT state || ':' || count(*) AS line FROM deliveries GROUP BY state ORDER BY state)";
    let states: String = file.query_row(states, [], |row| row.get(0)).unwrap();
    let moved = "SELECT string_agg(line, ',') FROM (SELECT state || ':' || count(*) AS line FROM posthaste.deliveries GROUP BY state ORDER BY state) AS s";
    assert_eq!(run(moved).unwrap(), states);
    drop(file);
    for table in ["events", "deliveries_ended", "attempts"] {
        let counts = format!(
            "SELECT (SELECT count(*) > 0 FROM posthaste.{table}), (SELECT count(*) FROM posthaste.{table}_rest)"
        );
        assert_eq!(run(&counts).unwrap(), "t|0", "{table} is stored in daily partitions");
    }

    receiver.behave("/hang", Behaviour::Ok);
    home.set("STORE", &to);
    let mut node = home.start().await;
    let after = node.client.list("/v1/apps/shop/deliveries").await;
    assert_eq!(after.len(), before.len());
    let ended = |list: &[Value]| {
        let is_ended = |one: &&Value| ["delivered", "dead"].contains(&one["status"].as_str().unwrap());
        list.iter().filter(is_ended).cloned().collect::<Vec<_>>()
    };
    let after_ended: Vec<_> = ended(&after).into_iter().filter(|one| one["endpoint_id"] != "line").collect();
    assert_eq!(after_ended, ended(&before), "what had ended is as it was");
    let open = "/v1/apps/shop/deliveries?status=pending,retrying,in_flight";
    wait_until("the rest is delivered", WAIT_LIMIT, async || node.client.list(open).await.is_empty()).await;
    let line: Vec<_> = receiver.receipts_at("/hang").iter().map(|receipt| receipt.id().to_owned()).collect();
    assert_eq!(
        line,
        ["late0", "late0", "late4", "late3", "late2", "late1"],
        "each in its turn, and only one came again"
    );
    receiver.behave("/dead", Behaviour::Ok);
    let health = async || node.client.get("/v1/apps/shop/endpoints/dead/health").await.expect(200);
    assert_ne!(health().await["consecutive_failures"], 0, "its failures before the migration count");
    node.client.publish("shop", &json!({ "id": "well", "type": "rare", "data": {} })).await;
    wait_until("it is well", WAIT_LIMIT, async || health().await["consecutive_failures"] == 0).await;
    let again =
        json!({ "id": "b0n1", "type": "t", "key": "k", "data": { "n": 1, "text": "a\u{0}b\u{10ffff}" } });
    assert_eq!(node.client.try_publish("shop", &again).await.unwrap().status, 200, "it is known");

    let mut living = migrate(&home);
    assert_eq!(living.exited().await.code(), Some(1));
    assert!(living.log().contains("is in use by 1 nodes"), "{}", living.log());
    assert_eq!(node.stop().await, Some(0), "{}", node.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_differs_from_its_source_is_detected_and_never_used() {
    let (server, receiver, home) =
        (TestDatabaseServer::start(), TestReceiver::start().await, NodeFolder::new());
    let mut node = home.start().await;
    node.client.make_app("shop").await;
    node.client.make_endpoint("shop", "ok", &receiver.url("/ok"), json!({})).await;
    for n in 0..5 {
        node.client.publish("shop", &json!({ "id": format!("e{n}"), "type": "t", "data": n })).await;
    }
    let open = "/v1/apps/shop/deliveries?status=pending,retrying,in_flight";
    wait_until("all have ended", WAIT_LIMIT, async || node.client.list(open).await.is_empty()).await;
    assert_eq!(node.stop().await, Some(0), "{}", node.log());
    let (from, to) = (format!("sqlite:{}", home.store().display()), server.address("postgres"));
    let run = |sql: &str| server.run("postgres", &format!("SET search_path = posthaste; {sql}")).unwrap();
    let migrate = async |code: i32| {
        let mut migrate = home.spawn(&[], &["migrate", "--from", &from, "--to", &to]);
        assert_eq!(migrate.exited().await.code(), Some(code), "{}", migrate.log());
        migrate.log()
    };
    migrate(0).await;
    // As if the migration had been interrupted before its last step.
    run("UPDATE sqlite_import SET finished = 0");
    for (harm, mend, said) in [
        (
            "CREATE TABLE public.kept AS SELECT * FROM events ORDER BY id LIMIT 1;
             DELETE FROM events WHERE id IN (SELECT id FROM public.kept)",
            "INSERT INTO events SELECT * FROM public.kept",
            "events has 4 rows in the database and 5 in the store, counted as a whole",
        ),
        (
            "UPDATE deliveries_ended SET state = 6, reason = 0 WHERE id = (SELECT max(id) FROM deliveries_ended)",
            "UPDATE deliveries_ended SET state = 4, reason = NULL WHERE state = 6",
            "deliveries has 5 rows in the database and 5 in the store, counted as rows of each state",
        ),
        (
            "UPDATE attempts SET class = 9 WHERE delivery = (SELECT max(delivery) FROM attempts)",
            "UPDATE attempts SET class = 0 WHERE class = 9",
            "attempts has 5 rows in the database and 5 in the store, counted as rows of each class",
        ),
    ] {
        run(harm);
        let output = migrate(1).await;
        assert!(output.contains(said) && output.contains("it is not to be used"), "{output}");
        assert_eq!(run("SELECT finished FROM sqlite_import"), "0", "{said}");
        let mut early = home.spawn(&[], &["serve", "--store", &to]);
        assert_eq!(early.exited().await.code(), Some(1));
        assert!(early.log().contains("is not all there"), "{}", early.log());
        run(mend);
    }
    assert!(migrate(0).await.contains("moved and verified"));
    assert_eq!(run("SELECT finished FROM sqlite_import"), "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_is_not_migrated_while_in_use_nor_into_a_database_that_is_not_its_copy() {
    let server = TestDatabaseServer::start();
    let (mut home, other) = (NodeFolder::new(), NodeFolder::new());
    let to = server.address("postgres");
    let mut node = home.start().await;
    node.client.make_app("shop").await;
    let from = format!("sqlite:{}", home.store().display());
    let refused = async |home: &NodeFolder, from: &str, to: &str, code: i32, said: &str| {
        let mut migrate = home.spawn(&[], &["migrate", "--from", from, "--to", to]);
        assert_eq!(migrate.exited().await.code(), Some(code), "{}", migrate.log());
        assert!(migrate.log().contains(said), "{said}: {}", migrate.log());
    };
    refused(&home, &from, &to, 1, "another process already uses the store").await;
    refused(&home, "sqlite:/nowhere/at/all.db", &to, 1, "there is no store at").await;
    refused(&home, &to, &to, 2, "must be sqlite: and the path of a file").await;
    refused(&home, &from, &from, 2, "must be the address of a database").await;
    assert_eq!(node.stop().await, Some(0));

    let mut node = other.start().await;
    node.client.make_app("other").await;
    assert_eq!(node.stop().await, Some(0));
    let theirs = format!("sqlite:{}", other.store().display());
    let mut moved = home.spawn(&[], &["migrate", "--from", &theirs, "--to", &to, "--json"]);
    assert_eq!(moved.exited().await.code(), Some(0), "{}", moved.log());
    assert!(moved.log().contains("\"apps\":1"), "{}", moved.log());
    refused(&home, &from, &to, 1, "has a copy of").await;

    server.run("postgres", "CREATE DATABASE used").unwrap();
    home.set("STORE", &server.address("used"));
    let mut node = home.start().await;
    node.client.make_app("used").await;
    assert_eq!(node.stop().await, Some(0));
    refused(&home, &from, &server.address("used"), 1, "has data of its own").await;
}
