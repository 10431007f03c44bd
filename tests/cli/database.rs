//! Commands with a database as store: no password is ever printed, and `check` finds the problems that would stop a server.

use crate::{
    command_output::run_in,
    harness::{NodeFolder, database::TestDatabaseServer},
};
use serde_json::{Value, json};

const OTHER_KEY: &str = "other:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

#[tokio::test]
async fn an_invalid_address_is_refused_with_the_reason_and_without_its_password() {
    let mut home = NodeFolder::new();
    let from = format!("sqlite:{}", home.store().display());
    for (address, why) in [
        ("postgres://me:hunter2@db/ph?sslmode=verify-ca", "sslmode must be disable, prefer"),
        ("postgres://me:hunter2@db/ph?sslcert=/a.pem", "sslcert cannot be given"),
        ("postgres://me:hunter2@db", "the name of the database is missing"),
        ("postgres://me:p@hunter2@db/ph", "@ and % are written"),
        ("postgre://me:hunter2@db/ph", "postgres://user:password@host"),
    ] {
        for (args, code) in [
            (&["migrate", "--from", &from, "--to", address][..], 2),
            (&["serve", "--store", address], 2),
            (&["check", "--store", address], 1),
            (&["backup", "--store", address, "copy.db"], 2),
        ] {
            let said = run_in(&home, args).await.ended(code);
            let all = said.out + &said.err;
            assert!(all.contains(why) && !all.contains("hunter2"), "{args:?}: {all}");
        }
    }
    let in_the_wrong_place = "postgres://me:hunter2@db/ph";
    for args in [
        &["migrate", "--from", in_the_wrong_place, "--to", in_the_wrong_place][..],
        &["migrate", in_the_wrong_place],
        &["serve", in_the_wrong_place],
        &["check", in_the_wrong_place],
    ] {
        let said = run_in(&home, args).await.ended(2);
        assert!(!said.err.contains("hunter2") && said.out.is_empty(), "{args:?}: {said:?}");
    }
    // Without a flag the setting names the target.
    let said = run_in(&home, &["migrate", "--from", &from]).await.ended(2);
    assert!(said.err.contains("--to: is missing"), "{said:?}");
    home.set("STORE", "postgres://me:hunter2@db/ph?pooler=perhaps");
    let said = run_in(&home, &["migrate", "--from", &from]).await.ended(2);
    assert!(said.err.contains("pooler must be true or false") && !said.err.contains("hunter2"), "{said:?}");
    let server = TestDatabaseServer::start();
    home.set("STORE", &server.address("postgres"));
    let said = run_in(&home, &["migrate", "--from", "sqlite:/nowhere/at/all.db"]).await.ended(1);
    assert!(said.err.contains("there is no store at"), "{said:?}");
}

/// A database with an ordinary role.
struct PrivilegesFixture {
    server: TestDatabaseServer,
    home: NodeFolder,
}

impl PrivilegesFixture {
    fn new() -> Self {
        let estate = Self { server: TestDatabaseServer::start(), home: NodeFolder::new() };
        estate.run("CREATE ROLE tenant LOGIN; CREATE ROLE admin CREATEROLE; CREATE ROLE product; CREATE ROLE guest LOGIN");
        estate
    }

    fn run(&self, sql: &str) -> String {
        self.server.run("postgres", sql).unwrap()
    }

    fn connect_as(&mut self, role: &str) {
        let address = self.server.address("postgres").replace("user=posthaste", &format!("user={role}"));
        self.home.set("STORE", &address);
    }

    /// Returns the results about the store, the keys and the publisher.
    async fn check(&self, code: i32) -> String {
        let found = run_in(&self.home, &["check", "--json"]).await.ended(code).json();
        let is_it = |line: &&Value| ["store", "keys", "publisher"].contains(&line["name"].as_str().unwrap());
        let words = |line: &Value| {
            let advice = line["advice"].as_str().unwrap_or_default();
            format!("{} {} {advice}\n", line["grade"].as_str().unwrap(), line["said"].as_str().unwrap())
        };
        found["checks"].as_array().unwrap().iter().filter(is_it).map(words).collect()
    }
}

#[track_caller]
fn has(lines: &str, grade: &str, words: &str) {
    let is_it = |line: &str| line.starts_with(grade) && line.contains(words);
    assert!(lines.lines().any(is_it), "{grade} {words}: {lines}");
}

/// Returns the documentation's statements that create the role.
fn documented() -> Vec<&'static str> {
    let page = include_str!("../../docs/transactional-publish.md");
    let block = page.split("```sql\n").find(|block| block.starts_with("CREATE ROLE")).unwrap();
    block.split_once("```").unwrap().0.lines().collect()
}

#[tokio::test]
async fn a_role_that_may_not_create_the_schema_gets_an_error_and_needs_only_the_schema() {
    let mut estate = PrivilegesFixture::new();
    estate.connect_as("tenant");
    let lines = estate.check(1).await;
    has(&lines, "failed", "the role tenant may not make the schema posthaste");
    let there = "SELECT count(*) FROM pg_namespace WHERE nspname = 'posthaste'";
    assert_eq!(estate.run(there), "0", "it was only looked at");
    estate.run("GRANT CREATE ON DATABASE postgres TO tenant");
    has(&estate.check(0).await, "ok", "is prepared at the first start");
    estate.run("REVOKE CREATE ON DATABASE postgres FROM tenant; CREATE SCHEMA posthaste");
    has(
        &estate.check(1).await,
        "failed",
        "the role tenant does not own the schema posthaste (posthaste does)",
    );
    estate.run("DROP SCHEMA posthaste");
    // As the advice says.
    estate.run("CREATE SCHEMA posthaste AUTHORIZATION tenant");
    let lines = estate.check(0).await;
    has(&lines, "ok", "is prepared at the first start");
    has(&lines, "ok", "fits all 0 secrets");
    let mut node = estate.home.start().await;
    node.client.make_app("shop").await;
    node.client.make_endpoint("shop", "e", "http://127.0.0.1:9/", json!({ "headers": { "x-a": "1" } })).await;
    assert_eq!(node.stop().await, Some(0), "{}", node.log());
    let mut again = estate.home.start().await;
    assert_eq!(again.stop().await, Some(0), "{}", again.log());

    let lines = estate.check(0).await;
    has(&lines, "ok", "is up to date");
    has(&lines, "ok", "fits all 2 secrets");
    has(&lines, "warning", "nobody but the schema's owner may publish in SQL");
    let wrong = run_in(&estate.home, &["check", "--encryption-key", OTHER_KEY]).await.ended(1);
    assert!(wrong.out.contains("encrypted with a key that is not given"), "{wrong:?}");

    let made = documented();
    assert_eq!(made.len(), 3, "{made:?}");
    for (statement, by) in made.iter().zip(["admin", "tenant", "tenant"]) {
        assert!(lines.contains(statement), "{statement}: {lines}");
        estate.run(&format!("SET ROLE {by}; {statement}"));
    }
    assert!(!estate.check(0).await.contains("may publish in SQL"));
    let publish = "SET ROLE product; SELECT posthaste.publish('shop', 't', '1', 'by-product')";
    assert!(estate.server.run("postgres", publish).is_err());
    estate.run("SET ROLE admin; GRANT posthaste_publisher TO product");
    assert_eq!(estate.run(publish), "by-product");
}

#[tokio::test]
async fn a_partly_migrated_or_foreign_store_is_found() {
    let mut estate = PrivilegesFixture::new();
    estate.connect_as("posthaste");
    let mut node = estate.home.start().await;
    assert_eq!(node.stop().await, Some(0));
    let lines = estate.check(0).await;
    assert!(!lines.contains("warning"), "{lines}");
    estate.run("INSERT INTO posthaste.sqlite_import (only_row, origin, finished) VALUES (1, 'a.db', 0)");
    has(&estate.check(1).await, "failed", "is not all there");
    estate.run("UPDATE posthaste.sqlite_import SET finished = 1");
    has(&estate.check(0).await, "ok", "is up to date");
    estate.connect_as("guest");
    has(&estate.check(1).await, "failed", "permission denied");
    estate.run(
        "GRANT USAGE ON SCHEMA posthaste TO guest; GRANT SELECT ON ALL TABLES IN SCHEMA posthaste TO guest",
    );
    has(&estate.check(0).await, "warning", "the role guest does not own the schema posthaste");
}
