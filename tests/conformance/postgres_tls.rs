//! TLS to PostgreSQL: how far the server must prove its identity, and that the traffic is encrypted.

use crate::{
    certificates::{authority, identity},
    database::TestDatabaseServer,
    postgres::{open, wait_until},
};
use tempfile::TempDir;

#[test]
fn the_server_must_prove_its_identity_as_the_address_demands() {
    let (ours, other) = (authority("ours"), authority("another"));
    let (certificate, key) = identity("localhost", Some(&ours), |_| ());
    let server = TestDatabaseServer::encrypted(&format!("{}{}", certificate.pem(), key.serialize_pem()));
    let folder = TempDir::new().unwrap();
    let file = |name: &str, pem: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, pem).unwrap();
        path.display().to_string()
    };
    let (ours, other) = (file("ours.pem", ours.pem()), file("other.pem", other.pem()));
    let empty = file("empty.pem", String::new());
    let tried = |host: &str, query: &str| {
        let address = format!("postgres://posthaste@{host}:{}/postgres{query}", server.port);
        let store = open(&address).map_err(|error| error.to_string())?;
        let lent = "SELECT DISTINCT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
             WHERE application_name = 'posthaste'";
        let mut is_encrypted = String::new();
        wait_until("connections from before have ended", || {
            is_encrypted = server.run("postgres", lent).unwrap();
            ["t", "f"].contains(&&*is_encrypted)
        });
        drop(store);
        Ok::<_, String>(is_encrypted)
    };
    for (host, query, expected) in [
        ("localhost", format!("?sslrootcert={ours}"), Ok("t")),
        ("localhost", format!("?sslmode=verify-full&sslrootcert={ours}"), Ok("t")),
        ("localhost", "?sslmode=verify-full".to_owned(), Err("no trusted authority has signed it")),
        ("localhost", format!("?sslrootcert={other}"), Err("no trusted authority has signed it")),
        ("127.0.0.1", format!("?sslrootcert={ours}"), Err("it is for another name")),
        ("localhost", format!("?sslrootcert={empty}"), Err("there is no certificate in it")),
        ("localhost", "?sslrootcert=/nowhere".to_owned(), Err("/nowhere")),
        ("127.0.0.1", "?sslmode=require".to_owned(), Ok("t")),
        ("127.0.0.1", String::new(), Ok("t")),
        ("127.0.0.1", "?sslmode=disable".to_owned(), Ok("f")),
    ] {
        let said = tried(host, &query);
        match (&said, expected) {
            (Ok(is_encrypted), Ok(expected)) => assert_eq!(is_encrypted, expected, "{host} {query}"),
            (Err(said), Err(expected)) => assert!(said.contains(expected), "{host} {query}: {said}"),
            _ => panic!("{host} {query}: {said:?}"),
        }
    }
    let plain = TestDatabaseServer::encrypted("");
    let address = format!("postgres://posthaste@127.0.0.1:{}/postgres", plain.port);
    let said = open(&format!("{address}?sslmode=require")).map(drop).unwrap_err().to_string();
    assert!(said.contains("does not support TLS"), "{said}");
    open(&address).unwrap();
}
