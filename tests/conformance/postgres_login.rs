//! Logins at PostgreSQL: the server's default password method works, and errors come at once and without the password.

use crate::{
    certificates::{authority, identity},
    database::TestDatabaseServer,
    postgres::open,
};
use posthaste::store::postgres::PostgresOpenError;
use std::{fs, sync::mpsc, thread, time::Duration};

/// The limit for an immediate refusal. An unreachable server would be waited for without end.
const REFUSAL_TIME_MAX: Duration = Duration::from_secs(10);
const PASSWORD_FOR_ALL: &str = "local all posthaste trust
local all all scram-sha-256
host all all 127.0.0.1/32 scram-sha-256
";

#[test]
fn a_wrong_password_is_refused_at_once_and_never_shown() {
    let (certificate, key) = identity("localhost", Some(&authority("ours")), |_| ());
    let server = TestDatabaseServer::encrypted(&format!("{}{}", certificate.pem(), key.serialize_pem()));
    fs::write(format!("{}/data/pg_hba.conf", server.folder), PASSWORD_FOR_ALL).unwrap();
    let run = |sql: &str| server.run("postgres", sql).unwrap();
    run("SELECT pg_reload_conf()");
    run("CREATE ROLE tenant LOGIN PASSWORD 'hunter2 %&'; CREATE SCHEMA posthaste AUTHORIZATION tenant");
    assert!(run("SELECT rolpassword FROM pg_authid WHERE rolname = 'tenant'").starts_with("SCRAM-SHA-256$"));
    let at =
        |login: &str, query: &str| format!("postgres://{login}@127.0.0.1:{}/postgres{query}", server.port);
    let socket = |login: &str| {
        format!("postgres:///postgres?host={}&port={}&user=tenant{login}", server.folder, server.port)
    };
    for address in [
        at("tenant:hunter2%20%25%26", ""),
        at("tenant:hunter2%20%25%26", "?sslmode=disable"),
        at("tenant:hunter2%20%25%26", "?sslmode=require"),
        at("tenant", "?password=hunter2%20%25%26"),
        socket("&password=hunter2%20%25%26"),
    ] {
        drop(open(&address).unwrap_or_else(|error| panic!("{address}: {error}")));
    }
    let requested = "password authentication failed for user";
    for (address, why) in [
        (at("tenant:wrong-hunter3", ""), requested),
        (at("tenant:wrong-hunter3", "?sslmode=disable"), requested),
        (at("nobody:wrong-hunter3", ""), requested),
        (socket("&password=wrong-hunter3"), requested),
        (at("tenant", ""), "password"),
        (socket(""), "password"),
    ] {
        let (opened, is_opened) = mpsc::channel();
        let tried = address.clone();
        thread::spawn(move || opened.send(open(&tried).map(drop)));
        let error = is_opened.recv_timeout(REFUSAL_TIME_MAX).expect("it is not waited for").unwrap_err();
        assert!(
            matches!(&error, PostgresOpenError::Unreachable(said) if said.contains(why)),
            "{address}: {error}"
        );
        let said = format!("{error} {error:?}");
        assert!(!said.contains("hunter"), "{said}");
    }
}
