//! `posthaste check`: its results before the first start, beside a running server, and with problems. It leaves the store
//! unchanged.

use crate::{
    command_output::{run, run_in, url},
    harness::NodeFolder,
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs, path::Path};

/// Returns the results of a check, with their grades.
fn lines<'a>(found: &'a Value, name: &str) -> Vec<(&'a str, &'a str)> {
    let all = found["checks"].as_array().unwrap().iter().filter(|line| line["name"] == name);
    all.map(|line| (line["grade"].as_str().unwrap(), line["said"].as_str().unwrap())).collect()
}

#[track_caller]
fn says(found: &Value, name: &str, grade: &str, words: &str) {
    let lines = lines(found, name);
    assert!(lines.iter().any(|(known, said)| *known == grade && said.contains(words)), "{words}: {found:#}");
}

/// Every file of a folder, byte for byte, but the index that every reader of a write-ahead log makes again.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| !path.to_string_lossy().ends_with("-shm"));
    files.map(|path| (path.display().to_string(), fs::read(path).unwrap())).collect()
}

#[tokio::test]
async fn before_the_first_start_it_warns_of_risky_settings_and_creates_nothing() {
    let mut home = NodeFolder::new();
    let found = run_in(&home, &["check", "--json"]).await.ended(0).json();
    assert_eq!(found["ok"], true);
    says(&found, "configuration", "warning", "https_only is false");
    says(&found, "store", "ok", "is made at the first start");
    says(&found, "store", "ok", "a flush took at most");
    for (name, words) in
        [("port", "is free"), ("clock", "it says 20"), ("names", "localhost is "), ("contracts", "6 can")]
    {
        says(&found, name, "ok", words);
    }
    assert_eq!(lines(&found, "limits").len(), 2, "{found:#}");
    assert!(contents(&home.run_folder()).is_empty());
    home.set("LISTEN", "0.0.0.0:0");
    home.set("ALLOW_ADDRESSES", "0.0.0.0/0,169.254.0.0/16");
    home.set("ADMIN_KEY", "short");
    home.unset("ENCRYPTION_KEY");
    home.set("STORE", "sqlite:deep/er/posthaste.db");
    let bold = run_in(&home, &["check", "--json"]).await.ended(0).json();
    says(&bold, "configuration", "warning", "in plain HTTP");
    says(&bold, "configuration", "warning", "0.0.0.0/0, which is wide");
    says(&bold, "configuration", "warning", "169.254.0.0/16, where clouds keep");
    says(&bold, "keys", "warning", "fewer than 32");
    says(&bold, "keys", "warning", "beside what it protects");
    says(&bold, "store", "ok", "is made at the first start");
    assert!(contents(&home.run_folder()).is_empty());
}

#[tokio::test]
async fn beside_a_running_server_all_checks_pass_and_nothing_changes() {
    let home = NodeFolder::new();
    let mut node = home.start().await;
    node.client.make_app("shop").await;
    node.client.make_endpoint("shop", "e", "http://127.0.0.1:9/", json!({ "headers": { "x-a": "1" } })).await;
    node.client.publish("shop", &json!({ "type": "a", "data": 1 })).await;
    let (listen, server) = (node.client.address().to_string(), url(&node));
    let args = ["check", "--json", "--listen", &listen, "--server", &server, "--dns-name", "localhost"];
    let found = run_in(&home, &args).await.ended(0).json();
    let process = format!("process {}", node.pid());
    says(&found, "store", "ok", &format!("in use by {process}"));
    says(&found, "port", "ok", &process);
    says(&found, "clock", "ok", "has the same time");
    says(&found, "keys", "ok", "fits all 2 secrets");
    let other = "other:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
    let wrong = run_in(&home, &["check", "--json", "--listen", &listen, "--encryption-key", other]).await;
    says(&wrong.ended(1).json(), "keys", "failed", "encrypted with a key that is not given");
    node.client.publish("shop", &json!({ "type": "a", "data": 2 })).await;
    assert_eq!(node.stop().await, Some(0));
    let before = contents(&home.run_folder());
    let found = run_in(&home, &["check", "--json"]).await.ended(0).json();
    says(&found, "store", "ok", "not in use");
    assert!(contents(&home.run_folder()) == before, "the store is as it was");
    let mut node = home.start().await;
    node.kill().await;
    let store = home.store();
    let log = store.with_extension("db-wal");
    let before = (fs::read(&store).unwrap(), fs::read(&log).unwrap());
    run_in(&home, &["check"]).await.ended(0);
    assert!((fs::read(&store).unwrap(), fs::read(&log).unwrap()) == before, "what a crash left stays");
    home.start().await;
}

#[tokio::test]
async fn problems_fail_and_come_with_advice() {
    let mut home = NodeFolder::new();
    let refused = run_in(&home, &["check", "--hands", "none", "--https-only", "maybe"]).await.ended(1);
    assert_eq!(refused.out.matches("failed   configuration").count(), 2, "{refused:?}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let foreign = home.run_folder().join("foreign.db");
    fs::write(&foreign, "SQLite format 4, or so it says, and it goes on for a while after that").unwrap();
    home.set("LISTEN", &taken.local_addr().unwrap().to_string());
    home.set("STORE", &format!("sqlite:{}", foreign.display()));
    home.set("EXTRA_CA", "/nowhere/ca.pem");
    home.set("CONTRACTS_DIR", "/nowhere/contracts");
    let found = run_in(&home, &["check", "--json", "--server", "http://127.0.0.1:9"]).await.ended(1).json();
    assert_eq!(found["ok"], false);
    says(&found, "port", "failed", "cannot listen on");
    says(&found, "store", "failed", "is not a store of Posthaste");
    says(&found, "extra_ca", "failed", "/nowhere/ca.pem");
    says(&found, "contracts", "failed", "/nowhere/contracts");
    says(&found, "clock", "warning", "http://127.0.0.1:9");
    assert!(
        found["checks"]
            .as_array()
            .unwrap()
            .iter()
            .all(|line| (line["grade"] == "ok") == line["advice"].is_null())
    );
    home.set("STORE", "sqlite:/proc/nothing/here.db");
    let found = run_in(&home, &["check", "--json"]).await.ended(1).json();
    says(&found, "store", "failed", "");
    let help = run(&["check", "--help"]).await.ended(0);
    assert!(help.out.contains("Examples:") && help.out.contains("--dns-name"), "{help:?}");
}
