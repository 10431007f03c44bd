//! `posthaste inspect` as people and scripts use it: the real binary, its output and its exit codes.

use crate::{
    commands::{CommandLine, RunOutput},
    fixture::{TestApp, TestServer},
    harness::TestReceiver,
    inspect::endpoint_at,
    verifier::{PERFECT, ReceiverBehaviour},
};
use serde_json::Value;

/// Runs it with the app's own key.
async fn run(server: &TestServer, app: &TestApp, args: &[&str]) -> RunOutput {
    let mut cli = CommandLine::at(server);
    cli.set("POSTHASTE_KEY", app.api.key.as_deref().unwrap_or_default());
    cli.run_with(&[&["inspect"], args].concat(), b"").await
}

async fn furnished(server: &TestServer, habits: ReceiverBehaviour) -> (TestApp, String, TestReceiver) {
    let receiver = TestReceiver::start().await;
    let app = server.app().await;
    let endpoint = endpoint_at(&app, &receiver, "standard", habits).await;
    (server.by_its_key(&app).await, endpoint, receiver)
}

#[tokio::test]
async fn a_perfect_receiver_gets_a_table_of_passes_and_exit_code_0() {
    let server = TestServer::start().await;
    let (app, endpoint, _receiver) = furnished(&server, PERFECT).await;
    let said = run(&server, &app, &[&app.id, &endpoint]).await;
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
    let passes = said.out.lines().filter(|line| line.starts_with("  ✓ ")).count();
    assert_eq!(passes, 8, "{}", said.out);
    assert!(said.out.ends_with("protections: 8 of 8\n"), "{}", said.out);
    assert!(!said.out.contains('\x1b'), "no colours where there is no terminal");
    let ping = run(&server, &app, &[&app.id, &endpoint, "--ping"]).await;
    assert_eq!((ping.code, ping.out.ends_with("protections: 1 of 1\n")), (Some(0), true), "{}", ping.out);
}

#[tokio::test]
async fn gaps_are_explained_and_give_exit_code_1_also_as_json() {
    let server = TestServer::start().await;
    let (app, endpoint, _receiver) =
        furnished(&server, ReceiverBehaviour { verifies: false, has_tolerance: false, ..PERFECT }).await;
    let said = run(&server, &app, &[&app.id, &endpoint]).await;
    assert_eq!(said.code, Some(1), "{}", said.err);
    println!("{}", said.out);
    assert_eq!(said.out.lines().filter(|line| line.starts_with("  ✗ ")).count(), 3, "{}", said.out);
    assert_eq!(said.out.matches("      do:").count(), 3, "{}", said.out);
    assert!(said.out.lines().all(|line| line.chars().count() <= 96), "{}", said.out);
    assert!(said.out.ends_with("protections: 5 of 8\n"), "{}", said.out);
    let json = run(&server, &app, &[&app.id, &endpoint, "--json"]).await;
    let inspection: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((json.code, &inspection["report"]["summary"]["failed"]), (Some(1), &Value::from(3)));
}

#[tokio::test]
async fn what_cannot_be_done_is_said_in_words_with_its_exit_code() {
    let server = TestServer::start().await;
    let (app, endpoint, _receiver) = furnished(&server, PERFECT).await;
    let path = format!("/endpoints/{endpoint}");
    app.patch(&path, &serde_json::json!({ "health_url": null })).await.is(200);
    let own = app.id.as_str();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nowhere = format!("http://{nobody}");
    for (args, code, words) in [
        (&[own, &endpoint, "--key", "wrong"][..], 4, "This key is not known"),
        (&[own, &endpoint, "--key", "a b"], 2, "without spaces"),
        (&[own, "nobody"], 3, "There is no such endpoint. (404, not_found)"),
        (&["other/../x", &endpoint], 3, "There is no such app."),
        (&["..", &endpoint], 2, "no id"),
        (&[own, &endpoint, "--ping"], 1, "health_url: is not set on this endpoint"),
        (&[own, &endpoint, "--server", &nowhere], 5, "connection refused"),
        (&[own, &endpoint, "--server", "localhost"], 2, "must start with https:// or http://"),
        (&[own], 2, "<ENDPOINT>"),
        (&[own, &endpoint, "--pign"], 2, "--ping"),
    ] {
        let said = run(&server, &app, args).await;
        assert_eq!((said.code, said.out.as_str()), (Some(code), ""), "{args:?}: {}", said.err);
        assert!(said.err.contains(words), "{args:?}: {}", said.err);
        assert!(!said.err.contains("panicked"), "{}", said.err);
    }
}
