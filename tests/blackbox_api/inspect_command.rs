//! `posthaste inspect` as people and scripts use it: the real binary, its output and its exit codes.

use crate::{
    harness::Receiver,
    inspect::endpoint_at,
    verifier::{Habits, PERFECT},
    world::{App, World},
};
use serde_json::Value;
use tokio::process::Command;

struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

/// Runs it with a server and a key in the environment, and proxies that must not be asked.
async fn run(app: &App, args: &[&str]) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    command.arg("inspect").args(args).env_clear();
    command.env("POSTHASTE_URL", format!("http://{}/", app.api.address));
    command.env("POSTHASTE_KEY", app.api.key.as_deref().unwrap_or_default());
    command.env("POSTHASTE_LISTEN", "a setting of the server's");
    for proxy in ["HTTP_PROXY", "http_proxy", "ALL_PROXY"] {
        command.env(proxy, "http://127.0.0.1:9");
    }
    let output = command.output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

async fn furnished(world: &World, habits: Habits) -> (App, String, Receiver) {
    let receiver = Receiver::start().await;
    let app = world.app().await;
    let endpoint = endpoint_at(&app, &receiver, "standard", habits).await;
    (world.by_its_key(&app).await, endpoint, receiver)
}

#[tokio::test]
async fn a_perfect_receiver_gets_a_table_of_passes_and_exit_code_0() {
    let world = World::start().await;
    let (app, endpoint, _receiver) = furnished(&world, PERFECT).await;
    let said = run(&app, &[&app.id, &endpoint]).await;
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
    let passes = said.out.lines().filter(|line| line.starts_with("  ✓ ")).count();
    assert_eq!(passes, 8, "{}", said.out);
    assert!(said.out.ends_with("protections: 8 of 8\n"), "{}", said.out);
    assert!(!said.out.contains('\x1b'), "no colours where there is no terminal");
    let ping = run(&app, &[&app.id, &endpoint, "--ping"]).await;
    assert_eq!((ping.code, ping.out.ends_with("protections: 1 of 1\n")), (Some(0), true), "{}", ping.out);
}

#[tokio::test]
async fn gaps_are_explained_and_give_exit_code_1_also_as_json() {
    let world = World::start().await;
    let (app, endpoint, _receiver) =
        furnished(&world, Habits { verifies: false, has_tolerance: false, ..PERFECT }).await;
    let said = run(&app, &[&app.id, &endpoint]).await;
    assert_eq!(said.code, Some(1), "{}", said.err);
    println!("{}", said.out);
    assert_eq!(said.out.lines().filter(|line| line.starts_with("  ✗ ")).count(), 3, "{}", said.out);
    assert_eq!(said.out.matches("      do:").count(), 3, "{}", said.out);
    assert!(said.out.lines().all(|line| line.chars().count() <= 96), "{}", said.out);
    assert!(said.out.ends_with("protections: 5 of 8\n"), "{}", said.out);
    let json = run(&app, &[&app.id, &endpoint, "--json"]).await;
    let inspection: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((json.code, &inspection["report"]["summary"]["failed"]), (Some(1), &Value::from(3)));
}

#[tokio::test]
async fn what_cannot_be_done_is_said_in_words_with_exit_code_2() {
    let world = World::start().await;
    let (app, endpoint, _receiver) = furnished(&world, PERFECT).await;
    let path = format!("/endpoints/{endpoint}");
    app.patch(&path, &serde_json::json!({ "health_url": null })).await.is(200);
    let own = app.id.as_str();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nowhere = format!("http://{nobody}");
    for (args, words) in [
        (&[own, &endpoint, "--key", "wrong"][..], "This key is not known"),
        (&[own, &endpoint, "--key", "a b"], "without spaces"),
        (&[own, "nobody"], "There is no such endpoint. (404, not_found)"),
        (&["other/../x", &endpoint], "There is no such app."),
        (&["..", &endpoint], "no id"),
        (&[own, &endpoint, "--ping"], "health_url: is not set on this endpoint"),
        (&[own, &endpoint, "--server", &nowhere], "connection refused"),
        (&[own, &endpoint, "--server", "localhost"], "must start with https:// or http://"),
        (&[own], "<ENDPOINT>"),
        (&[own, &endpoint, "--pign"], "--ping"),
    ] {
        let said = run(&app, args).await;
        assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{args:?}: {}", said.err);
        assert!(said.err.contains(words), "{args:?}: {}", said.err);
        assert!(!said.err.contains("panicked"), "{}", said.err);
    }
}
