//! Migrations that this version does not have: future ones, beside nodes that do not know them.

#[expect(dead_code, reason = "the fault tests use other parts of it")]
#[path = "../../../../tests/harness/database.rs"]
mod database;
#[path = "../../../../tests/harness/server_shell.rs"]
mod server_shell;

use super::{
    super::{node::enter, open, session::Server},
    *,
};
use crate::domain::database_address::DatabaseAddress;

/// Returns the known migrations and these after them.
fn known(to_come: &[Migration]) -> Vec<Migration> {
    [MIGRATIONS, to_come].concat()
}

const ADDS: Migration =
    Migration { number: NEWEST + 1, oldest: NEWEST, sql: "ALTER TABLE apps ADD COLUMN colour text" };
const REMOVES: Migration =
    Migration { number: NEWEST + 2, oldest: NEWEST + 1, sql: "ALTER TABLE apps DROP COLUMN settings" };

struct TestDatabase {
    server: database::TestDatabaseServer,
    session: Session,
}

impl TestDatabase {
    fn new() -> Self {
        let server = database::TestDatabaseServer::start();
        let address = DatabaseAddress::parse(&server.address("postgres")).unwrap();
        let (session, _) = open::connect_and_migrate(&Server::at(&address).unwrap()).unwrap();
        Self { server, session }
    }

    fn run(&self, sql: &str) -> String {
        self.server.run("postgres", sql).unwrap()
    }
}

#[test]
fn an_adding_migration_runs_beside_older_nodes_and_a_removing_one_only_without_them() {
    let fixture = TestDatabase::new();
    let (first, _) = enter(&fixture.session).unwrap();
    migrate(&fixture.session, &known(&[ADDS])).unwrap();
    assert_eq!(applied(&fixture.session, MIGRATIONS).unwrap(), NEWEST + 1, "an older node may start on it");
    let (second, _) = enter(&fixture.session).unwrap();

    let newer = known(&[ADDS, REMOVES]);
    let refused = migrate(&fixture.session, &newer).unwrap_err();
    assert!(matches!(refused, PostgresOpenError::Needed { nodes: 2 }), "{refused}");
    assert_eq!(fixture.run("SELECT max(number) FROM posthaste.migrations"), (NEWEST + 1).to_string());
    fixture.run(&format!("UPDATE posthaste.nodes SET lease_until = 0 WHERE epoch = {first}"));
    let refused = migrate(&fixture.session, &newer).unwrap_err();
    assert!(matches!(refused, PostgresOpenError::Needed { nodes: 1 }), "{refused}");
    let unfenced = "SELECT count(*) FROM posthaste.writer_batches WHERE writer >= 0";
    assert_eq!(fixture.run(unfenced), "4", "a refused migration changed nothing");

    // One left, and one has fallen silent.
    fixture.run(&format!("DELETE FROM posthaste.nodes WHERE epoch = {second}"));
    migrate(&fixture.session, &newer).unwrap();
    let dead = fixture.run(&format!("SELECT dead FROM posthaste.nodes WHERE epoch = {first}"));
    assert_eq!((dead.as_str(), fixture.run(unfenced).as_str()), ("1", "2"), "the silent node is fenced");
    let refused = applied(&fixture.session, MIGRATIONS).unwrap_err();
    assert!(matches!(refused, PostgresOpenError::TooNew { found } if found == NEWEST + 2), "{refused}");
    let refused = enter(&fixture.session).unwrap_err();
    assert!(refused.to_string().contains("a newer version prepared"), "{refused}");
    assert_eq!(
        fixture.run("SELECT count(*) FROM posthaste.nodes"),
        "1",
        "the older node does not enter again"
    );
}

/// A node knows the steps up to its version's, and goes on beside a later one unless that asks for more.
#[test]
fn the_renaming_is_the_only_step_that_needs_all_older_nodes_stopped() {
    let needed = |migration: &&Migration| migration.number > 1 && migration.oldest >= migration.number;
    let breaking: Vec<i64> = MIGRATIONS.iter().filter(needed).map(|migration| migration.number).collect();
    assert_eq!(breaking, [RENAMING]);
    assert!(MIGRATIONS.iter().zip(1..).all(|(migration, number)| migration.number == number));
}

#[test]
fn a_failed_migration_leaves_nothing_and_can_be_applied_later() {
    let fixture = TestDatabase::new();
    let step = |sql| Migration { number: NEWEST + 1, oldest: NEWEST + 1, sql };
    let fails = step("CREATE TABLE half (id bigint); SELECT 1 / 0");
    let error = migrate(&fixture.session, &known(&[fails])).unwrap_err();
    assert!(
        matches!(&error, PostgresOpenError::NotPrepared(why) if why.contains("division by zero")),
        "{error}"
    );
    assert_eq!(fixture.run("SELECT count(*) FROM posthaste.migrations"), NEWEST.to_string());
    assert_eq!(fixture.run("SELECT to_regclass('posthaste.half') IS NULL"), "t");
    migrate(&fixture.session, &known(&[step("CREATE TABLE half (id bigint)")])).unwrap();
    migrate(&fixture.session, &known(&[step("CREATE TABLE half (id bigint)")])).unwrap();
    assert_eq!(
        applied(&fixture.session, &known(&[step("CREATE TABLE half (id bigint)")])).unwrap(),
        NEWEST + 1
    );
}
