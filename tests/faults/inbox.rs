//! Events that a product publishes inside its own transactions, on a real server: delivered if and once the transaction
//! commits, exactly once even if the node is killed in between.

use crate::harness::{
    Behaviour, NodeFolder, TestNode, TestReceiver, database::TestDatabaseServer, report, wait_until,
};
use http::Method;
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::{task::JoinHandle, time::Instant};

const WAIT_LIMIT: Duration = Duration::from_secs(30);
/// Limit of the median time until an event is picked up and sent.
const MEDIAN_LIMIT: Duration = Duration::from_secs(1);
/// Limit for a single event, on a machine with other load.
const SINGLE_LIMIT: Duration = Duration::from_secs(2);

/// A product and a node on one database, and a receiver.
pub(crate) struct InboxFixture {
    pub(crate) server: Arc<TestDatabaseServer>,
    home: NodeFolder,
    pub(crate) receiver: TestReceiver,
}

impl InboxFixture {
    pub(crate) async fn open() -> (Self, TestNode) {
        let server = Arc::new(TestDatabaseServer::start());
        let mut home = NodeFolder::new();
        home.set("STORE", &server.address("postgres"));
        let receiver = TestReceiver::start().await;
        let node = home.start().await;
        node.client.make_app("shop").await;
        let contract = json!({ "overrides": { "retry": { "waits": ["100ms", "1s"], "jitter": "none" } } });
        node.client.make_endpoint("shop", "hook", &receiver.url("/hook"), contract).await;
        let shop = Self { server, home, receiver };
        shop.run("CREATE TABLE orders (id bigint PRIMARY KEY)");
        (shop, node)
    }

    pub(crate) fn run(&self, sql: &str) -> String {
        self.server.run("postgres", sql).unwrap()
    }

    fn sql_error(&self, sql: &str) -> String {
        self.server.run("postgres", sql).unwrap_err()
    }

    fn running(&self, sql: String) -> JoinHandle<String> {
        let server = self.server.clone();
        tokio::task::spawn_blocking(move || server.run("postgres", &sql).unwrap())
    }

    /// Begins a transaction that is committed only after `let_go_on`. Returns once it waits there.
    async fn beside(&self, sql: &str) -> JoinHandle<String> {
        let until = "DO 'BEGIN WHILE NOT EXISTS (SELECT FROM pg_tables WHERE tablename = ''go_on'') LOOP PERFORM pg_sleep(0.02); END LOOP; END'";
        let begun = self.running(format!("{sql}; {until}; COMMIT"));
        let sleeps = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
        wait_until("it pauses", WAIT_LIMIT, async || self.run(sleeps) == "1").await;
        begun
    }

    async fn let_go_on(&self, begun: JoinHandle<String>) {
        self.run("CREATE TABLE public.go_on ()");
        begun.await.unwrap();
    }

    /// Returns how often each event was received.
    fn received(&self) -> BTreeMap<String, usize> {
        let mut received = BTreeMap::new();
        for receipt in self.receiver.receipts_at("/hook") {
            *received.entry(receipt.id().to_owned()).or_default() += 1;
        }
        received
    }

    pub(crate) async fn receives(&self, id: &str) {
        wait_until("it is received", WAIT_LIMIT, async || self.received().contains_key(id)).await;
    }

    pub(crate) async fn is_empty(&self) {
        let count = "SELECT count(*) FROM posthaste.inbox WHERE error IS NULL";
        wait_until("nothing waits", WAIT_LIMIT, async || self.run(count) == "0").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_events_of_one_app_do_not_delay_those_of_another() {
    let (shop, mut node) = InboxFixture::open().await;
    node.client.make_app("corner").await;
    node.client.make_endpoint("corner", "bell", &shop.receiver.url("/bell"), json!({})).await;
    shop.run("SELECT count(posthaste.publish('shop', 'order.paid', '1')) FROM generate_series(1, 20000)");
    shop.run("SELECT posthaste.publish('corner', 'order.paid', '2')");
    let has_come = async || shop.receiver.count_at("/bell") == 1;
    wait_until("the other app's is delivered", WAIT_LIMIT, has_come).await;
    let waiting: usize = shop.run("SELECT count(*) FROM posthaste.inbox").parse().unwrap();
    assert!(waiting > 2000, "only {waiting} of the many still waited");
    let taken = async || shop.run("SELECT count(*) FROM posthaste.inbox").parse::<usize>().unwrap() < waiting;
    wait_until("the many go on as well", WAIT_LIMIT, taken).await;
    node.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_published_in_a_transaction_is_delivered_only_if_that_commits() {
    let (shop, mut node) = InboxFixture::open().await;
    let data = r#"{ "b" : 1.10 , "a":"\u00e9", "a":2, "big": 12345678901234567890.10 }"#;
    let begun = Instant::now();
    let id = shop.run(&format!(
        "BEGIN; INSERT INTO orders VALUES (1);
         SELECT posthaste.publish('shop', 'order.paid', '  {data} '); COMMIT"
    ));
    assert!(id.starts_with("evt_"), "{id}");
    shop.receives(&id).await;
    let took = begun.elapsed();
    println!("delivered {took:?} after the transaction was begun");
    assert!(took < SINGLE_LIMIT, "{took:?}");
    let receipt = shop.receiver.receipts_at("/hook").remove(0);
    let body = String::from_utf8(receipt.body.to_vec()).unwrap();
    assert!(body.contains(&format!("\"data\":{data}}}")), "byte for byte: {body}");
    let event = node.client.get(&format!("/v1/apps/shop/events/{id}")).await.expect(200);
    assert_eq!((&event["type"], &event["id"]), (&json!("order.paid"), &json!(id)));

    shop.run("BEGIN; SELECT posthaste.publish('shop', 't', '1', 'never'); ROLLBACK");
    // The first to be published is the last to commit.
    let slow = "BEGIN; SELECT posthaste.publish('shop', 't', '1', 'first')";
    let slow = shop.beside(slow).await;
    shop.run("SELECT posthaste.publish('shop', 't', '2', 'second')");
    shop.receives("second").await;
    assert!(!shop.received().contains_key("first"), "it was not committed yet");
    shop.let_go_on(slow).await;
    shop.receives("first").await;
    // A product that is not sure whether it committed publishes again.
    assert_eq!(shop.run("SELECT posthaste.publish('shop', 't', '2', 'second')"), "second");
    shop.is_empty().await;
    assert_eq!(node.stop().await, Some(0), "{}", node.log());
    let expected = [id.as_str(), "first", "second"].map(|id| (id.to_owned(), 1));
    assert_eq!(shop.received(), BTreeMap::from(expected));
    assert_eq!(shop.run("SELECT count(*) FROM posthaste.inbox"), "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_arguments_are_refused_with_a_reason_and_the_role_may_only_publish() {
    let (shop, mut node) = InboxFixture::open().await;
    for (arguments, said) in [
        ("NULL, 't', '1'", "app: is missing"),
        ("'nobody', 't', '1'", "app: there is no app \"nobody\""),
        ("'shop', NULL, '1'", "type: is missing"),
        ("'shop', 'a b', '1'", "type: must be 1 to 128 characters out of"),
        ("'shop', E'a\\n', '1'", "type: must be 1 to 128 characters out of"),
        ("'shop', 'webhook.test', '1'", "type: must not start with \"webhook.\""),
        ("'shop', 'posthaste.x', '1'", "type: must not start with \"posthaste.\""),
        ("'shop', 't', NULL", "data: is missing"),
        ("'shop', 't', '{'", "invalid input syntax for type json"),
        ("'shop', 't', to_json(repeat('x', 1048575))", "data: must be at most 1 MiB"),
        ("'shop', 't', '1', 'a b'", "id: must be 1 to 128 characters out of"),
        ("'shop', 't', '1', ''", "id: must be 1 to 128 characters out of"),
        ("'shop', 't', '1', key => ''", "key: must be 1 to 256 bytes"),
        ("'shop', 't', '1', key => repeat('é', 129)", "key: must be 1 to 256 bytes"),
        ("'shop', 't', '1', key => E'a\\tb'", "key: must be 1 to 256 bytes"),
        ("'shop', 't', '1', key => U&'a\\0085b'", "key: must be 1 to 256 bytes"),
    ] {
        let refusal = shop.sql_error(&format!("SELECT posthaste.publish({arguments})"));
        assert!(refusal.contains(said), "{arguments}: {refusal}");
    }
    assert_eq!(shop.run("SELECT count(*) FROM posthaste.inbox"), "0");
    let longest = "'shop', 't', to_json(repeat('x', 1048574)), repeat('i', 128), repeat('k', 256)";
    shop.run(&format!("SELECT posthaste.publish({longest})"));

    shop.run("CREATE ROLE product LOGIN; GRANT posthaste_publisher TO product; CREATE ROLE other LOGIN");
    let id = shop.run("SET ROLE product; SELECT posthaste.publish('shop', 't', '1', key => 'süd 7')");
    shop.receives(&id).await;
    let tables = shop.run(
        "SELECT string_agg(relname, ' ') FROM pg_class
        WHERE relnamespace = 'posthaste'::regnamespace AND relkind IN ('r', 'v', 'p')",
    );
    assert!(tables.contains("inbox") && tables.contains("secrets"), "{tables}");
    for table in tables.split(' ') {
        for forbidden in
            ["SELECT * FROM posthaste.{}", "LOCK posthaste.{}", "GRANT SELECT ON posthaste.{} TO other"]
        {
            let forbidden = forbidden.replace("{}", table);
            let refusal = shop.sql_error(&format!("SET ROLE product; {forbidden}"));
            assert!(refusal.contains("permission denied"), "{forbidden}: {refusal}");
        }
    }
    let callable = shop.run(
        "SELECT string_agg(proname, ' ') FROM pg_proc WHERE pronamespace = 'posthaste'::regnamespace
             AND has_function_privilege('product', oid, 'EXECUTE')",
    );
    assert_eq!(callable, "publish");
    for forbidden in [
        "CREATE TABLE posthaste.mine (id int)",
        "DELETE FROM posthaste.inbox",
        "INSERT INTO posthaste.inbox (app, type, data, event_id) VALUES (1, 't', '1', 'x')",
    ] {
        assert!(shop.sql_error(&format!("SET ROLE product; {forbidden}")).contains("permission denied"));
    }
    // The role's own tables of the same names are not used by the function.
    shop.run(
        "SET ROLE product; CREATE TEMP TABLE apps (id bigint, uid text, settings text);
         CREATE TEMP TABLE inbox (LIKE pg_class); SELECT posthaste.publish('shop', 't', '1', 'mine')",
    );
    shop.receives("mine").await;
    let refusal = shop.sql_error("SET ROLE other; SELECT posthaste.publish('shop', 't', '1')");
    assert!(refusal.contains("permission denied"), "{refusal}");
    assert_eq!(node.stop().await, Some(0), "{}", node.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_that_cannot_be_accepted_stay_with_their_reason_and_block_no_others() {
    let (shop, mut node) = InboxFixture::open().await;
    let version = json!({ "name": "1", "schema": { "type": "object", "required": ["id"] } });
    let strict = json!({ "name": "strict", "enforce_schema": true, "versions": [version] });
    node.client.post("/v1/event-types", &strict).await.expect(201);
    node.client.make_app("gone").await;
    node.client.publish("shop", &json!({ "id": "taken", "type": "t", "data": 1 })).await;
    shop.run("BEGIN; SELECT posthaste.publish('shop', 'strict', '{}', 'misfit');
         SELECT posthaste.publish('shop', 't', '2', 'taken');
         SELECT posthaste.publish('shop', 't', CAST(repeat('[', 200) || repeat(']', 200) AS json), 'deep');
         SELECT posthaste.publish('shop', 'strict', '{\"id\":1}', 'fits'); SELECT posthaste.publish('shop', 't', '1', 'taken');
         COMMIT");
    shop.receives("fits").await;
    shop.is_empty().await;
    let refused = shop.run("SELECT event_id || ' ' || error FROM posthaste.inbox ORDER BY id");
    let refused: Vec<&str> = refused.lines().collect();
    assert_eq!(refused.len(), 3, "{refused:?}");
    assert!(
        refused[0].starts_with("misfit data: does not fit the schema at /: \"id\" is a required property"),
        "{refused:?}"
    );
    assert!(
        refused[1].starts_with("taken id: something else was published under it, as evt_"),
        "{refused:?}"
    );
    assert_eq!(refused[2], "deep data: is nested deeper than 128");
    let mut check = shop.home.spawn(&[], &["check"]);
    check.exited().await;
    assert!(check.log().contains("3 events that were published in SQL were refused"), "{}", check.log());

    let lax = json!({ "enforce_schema": false }).to_string();
    let put = node.client.send(Method::PUT, "/v1/event-types/strict", &[], lax).await;
    put.unwrap().expect(200);
    shop.run("UPDATE posthaste.inbox SET error = NULL");
    shop.receives("misfit").await;
    shop.is_empty().await;
    assert_eq!(shop.run("SELECT count(*) FROM posthaste.inbox"), "2", "those two are unchanged");

    // An event that is committed after its app was deleted.
    let late = "BEGIN; SELECT posthaste.publish('gone', 't', '1', 'late')";
    let late = shop.beside(late).await;
    node.client.delete("/v1/apps/gone").await;
    shop.let_go_on(late).await;
    shop.is_empty().await;
    node.client.delete("/v1/apps/shop").await;
    wait_until("the rest goes with its app", WAIT_LIMIT, async || {
        shop.run("SELECT count(*) FROM posthaste.inbox") == "0"
    })
    .await;
    assert_eq!(node.stop().await, Some(0), "{}", node.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_between_reading_and_committing_the_inbox_neither_loses_nor_duplicates() {
    let (shop, mut node) = InboxFixture::open().await;
    // The inbox worker blocks at the first event.
    let lock = "BEGIN; LOCK posthaste.events IN SHARE MODE";
    let lock = shop.beside(lock).await;
    shop.run("SELECT posthaste.publish('shop', 't', to_json(n), 'e' || n) FROM generate_series(1, 20) AS n");
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'INSERT INTO events%'";
    wait_until("it is being taken in", WAIT_LIMIT, async || shop.run(waits) == "1").await;
    node.kill().await;
    assert_eq!(shop.run("SELECT count(*) FROM posthaste.inbox"), "20");
    shop.let_go_on(lock).await;
    let mut node = shop.home.start().await;
    wait_until("all are received", WAIT_LIMIT, async || shop.received().len() == 20).await;
    shop.is_empty().await;
    assert_eq!(node.stop().await, Some(0), "{}", node.log());
    assert!(shop.received().values().all(|times| *times == 1), "{:?}", shop.received());
    assert_eq!(
        shop.run("SELECT count(*) || ' ' || count(DISTINCT external_id) FROM posthaste.events"),
        "20 20"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_while_products_publish_lose_nothing_and_repeat_only_what_was_in_flight() {
    let (shop, mut node) = InboxFixture::open().await;
    shop.receiver.behave("/hook", Behaviour::Slow(Duration::from_millis(20)));
    let (mut expected, mut interrupted) = (BTreeSet::new(), 0);
    for round in 0..6 {
        // Many transactions; every third is rolled back.
        let mut sql = Vec::new();
        for n in 0..60 {
            let (id, end) = (format!("r{round}n{n}"), if n % 3 == 0 { "ROLLBACK" } else { "COMMIT" });
            sql.push(format!("BEGIN; SELECT posthaste.publish('shop', 't', '{n}', '{id}'); {end};"));
            if n % 3 != 0 {
                expected.insert(id);
            }
        }
        let before = shop.received().len();
        let publishing = shop.running(sql.concat());
        wait_until("some arrive", WAIT_LIMIT, async || shop.received().len() > before).await;
        node.kill().await;
        publishing.await.unwrap();
        node = shop.home.start().await;
        interrupted = shop.run("SELECT count(*) FROM posthaste.attempts WHERE class = 9").parse().unwrap();
    }
    wait_until("all are received", WAIT_LIMIT, async || shop.received().len() == expected.len()).await;
    shop.is_empty().await;
    assert_eq!(node.stop().await, Some(0), "{}", node.log());
    let received = shop.received();
    assert_eq!(received.keys().cloned().collect::<BTreeSet<_>>(), expected);
    let again: usize = received.values().map(|times| times - 1).sum();
    println!("{} events, {again} came again, {interrupted} were in flight at a kill", received.len());
    assert!(again <= interrupted, "{again} came again, {interrupted} were in flight");
    let stored = shop.run("SELECT count(*) || ' ' || count(DISTINCT external_id) FROM posthaste.events");
    assert_eq!(stored, format!("{0} {0}", expected.len()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_nodes_reads_the_inbox_and_the_other_after_a_kill() {
    let (shop, one) = InboxFixture::open().await;
    let two = shop.home.start().await;
    let divided = "SELECT string_agg(n, ' ') FROM (SELECT count(*)::text AS n FROM posthaste.shards GROUP BY epoch) AS of_each";
    wait_until("they divide the shards", WAIT_LIMIT, async || shop.run(divided) == "128 128").await;
    let soon = async |id: &str| {
        let begun = Instant::now();
        shop.run(&format!("SELECT posthaste.publish('shop', 't', '1', '{id}')"));
        shop.receives(id).await;
        begun.elapsed()
    };
    let mut took = Vec::new();
    for n in 0..20 {
        took.push(soon(&format!("both-{n}")).await);
    }
    took.sort();
    let (median, slowest) = (took[10], took[19]);
    let taker =
        shop.run("SELECT pid FROM posthaste.nodes JOIN posthaste.shards USING (epoch) WHERE shard = 0");
    let (mut taker, mut other) = if one.pid().to_string() == taker { (one, two) } else { (two, one) };
    taker.kill().await;
    let first = soon("first-after").await;
    let next = soon("next-after").await;
    report(format_args!(
        "two nodes, published in SQL: delivered after median={median:?} slowest={slowest:?}, first after a kill {first:?}, next {next:?}"
    ));
    assert!(
        median < MEDIAN_LIMIT
            && slowest < SINGLE_LIMIT
            && first < Duration::from_secs(15)
            && next < SINGLE_LIMIT
    );
    assert_eq!(other.stop().await, Some(0), "{}", other.log());
    let received = shop.received();
    assert_eq!(received.len(), 22);
    assert!(received.values().all(|times| *times == 1), "{received:?}");
}
