//! Invalid configuration is refused at the start, with the nearest valid name and exit code 2.

use crate::{
    fixture::TestServer,
    harness::{ADMIN_KEY, NodeFolder, TestClient},
};

/// Returns the exit code and the output.
async fn run(home: &NodeFolder, args: &[&str]) -> (Option<i32>, String) {
    let mut node = home.spawn(&[], args);
    let code = node.exited().await.code();
    (code, node.log())
}

#[tokio::test]
async fn an_unknown_variable_is_refused_with_the_nearest_name() {
    let mut home = NodeFolder::new();
    home.set("LISTN", "127.0.0.1:0");
    let (code, said) = run(&home, &["serve"]).await;
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("POSTHASTE_LISTN") && said.contains("the nearest is POSTHASTE_LISTEN"), "{said}");
    assert!(!home.store().exists(), "nothing was started");
}

#[tokio::test]
async fn values_that_are_not_allowed_are_all_named_at_once_and_secrets_are_not_repeated() {
    let mut home = NodeFolder::new();
    for (name, value) in [
        ("LISTEN", "nowhere"),
        ("HANDS", "0"),
        ("BODY_BYTES_MAX", "lots"),
        ("HTTPS_ONLY", "maybe"),
        ("ALLOW_ADDRESSES", "10.0.0.0/33"),
        ("SHUTDOWN_GRACE", "5"),
        ("LOG_LEVEL", "loud"),
        ("STORE", "postgres://x"),
        ("ENCRYPTION_KEY", "marker-of-a-secret"),
        ("ADMIN_KEY", "marker of a secret"),
    ] {
        home.set(name, value);
    }
    let mut node = home.spawn(&[], &["serve"]);
    assert_eq!(node.exited().await.code(), Some(2));
    let said = node.log();
    for name in [
        "listen",
        "hands",
        "body_bytes_max",
        "https_only",
        "allow_addresses",
        "shutdown_grace",
        "log_level",
        "store",
        "encryption_key",
        "admin_key",
    ] {
        assert!(said.lines().any(|line| line.starts_with(name)), "{name} is not named in\n{said}");
    }
    assert!(!said.contains("marker"), "{said}");
}

#[tokio::test]
async fn wrong_flags_files_and_commands_are_refused_too() {
    let home = NodeFolder::new();
    let file = home.folder().join("posthaste.toml");
    std::fs::write(&file, "hands = 5\nlistne = \"127.0.0.1:0\"\n").unwrap();
    let path = file.to_str().unwrap();
    let (code, said) = run(&home, &["serve", "--config", path]).await;
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("posthaste.toml:2") && said.contains("the nearest is listen"), "{said}");
    for args in [
        &["serve", "--lisen", "127.0.0.1:0"][..],
        &["serve", "--hands", "none"],
        &["sevre"],
        &[],
        &["serve", "--config", "nowhere.toml"],
    ] {
        let (code, said) = run(&home, args).await;
        assert_eq!(code, Some(2), "{args:?}: {said}");
        assert!(!said.is_empty());
    }
    for args in [&["--help"][..], &["--version"], &["serve", "--help"], &["openapi"]] {
        assert_eq!(run(&home, args).await.0, Some(0), "{args:?}");
    }
}

#[tokio::test]
async fn a_variable_beats_the_file_and_a_flag_beats_the_variable() {
    let mut home = NodeFolder::new();
    let file = home.folder().join("posthaste.toml");
    std::fs::write(&file, "admin_key = \"of-the-file\"\nbody_bytes_max = \"4KiB\"\nhands = 77\n").unwrap();
    home.set("CONFIG", file.to_str().unwrap());
    home.set("BODY_BYTES_MAX", "8KiB");
    let node = home.start_with(&["--body-bytes-max", "2KiB"]).await;
    let client = TestClient::new(node.client.address(), ADMIN_KEY);
    assert_eq!(client.get("/v1/apps").await.status, 200, "the variable's key");
    assert_eq!(client.with_key("of-the-file").get("/v1/apps").await.status, 401);
    let name = "x".repeat(3000);
    let answer = client.post("/v1/apps", &serde_json::json!({ "name": name })).await;
    assert_eq!(answer.status, 413, "{}", answer.text());
}

#[tokio::test]
async fn a_second_process_on_the_same_store_is_refused_and_the_first_goes_on() {
    let server = TestServer::start().await;
    let (code, said) = run(&server.home, &["serve"]).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("another process already uses the store"), "{said}");
    server.app().await.publish("x").await;
}

#[tokio::test]
async fn an_occupied_port_is_reported() {
    let server = TestServer::start().await;
    let mut home = NodeFolder::new();
    home.set("LISTEN", &server.node.client.address().to_string());
    let (code, said) = run(&home, &["serve"]).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&server.node.client.address().to_string()), "{said}");
}

#[tokio::test]
async fn everything_is_still_there_after_a_restart() {
    let mut server = TestServer::start().await;
    let app = server.app().await;
    let own = server.by_its_key(&app).await;
    app.endpoint("http://127.0.0.1:9/", serde_json::json!({ "id": "e", "headers": { "x-a": "1" } })).await;
    app.act("/endpoints/e/disable").await.is(200);
    let held = app.deliver().await;
    let seen = async |app: &crate::fixture::TestApp| {
        let mut all = Vec::new();
        for path in ["", "/endpoints/e", "/endpoints/e/secret", "/events", "/deliveries"] {
            all.push(app.get(path).await.is(200));
        }
        all.push(app.delivery(&held).await);
        all
    };
    let before = seen(&own).await;
    assert_eq!(server.node.stop().await, Some(0));
    server.node = server.home.start().await;
    let mut own = own;
    own.api.address = server.node.client.address();
    assert_eq!(seen(&own).await, before);
}
