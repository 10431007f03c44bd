//! Views of contracts: `/v1/contracts` and `posthaste contracts`.

use crate::{
    fixture::{TestServer, pluck, text},
    harness::NodeFolder,
};
use serde_json::{Value, json};

const ACME: &str = "name = \"acme\"\nbased_on = \"zerofee\"\nbrand = \"Acme\"\n[retry]\nwaits = [\"1m\"]\n";

#[tokio::test]
async fn every_key_may_read_every_contract_with_its_timeline() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let own = server.by_its_key(&app).await;
    let listed = own.api.get("/v1/contracts").await.is(200);
    let all = listed["data"].as_array().unwrap();
    assert_eq!(
        pluck(all, "name"),
        ["bastionary", "orientedos", "sendnomi", "simpaisa", "standard", "zerofee"].map(Value::from)
    );
    assert!(all.iter().all(|contract| contract["built_in"] == true), "{listed}");
    let zerofee = own.api.get("/v1/contracts/zerofee").await.is(200);
    assert_eq!(&zerofee, &all[5]);
    assert_eq!(text(&zerofee["hash"]).len(), 32);
    assert_eq!(zerofee["document"]["signature"]["header"], "X-{brand}-Signature");
    assert_eq!(zerofee["document"]["health"]["off_after_failed_events"], 10);
    assert_eq!(zerofee["document"]["event_types"].as_array().map(Vec::len), Some(10));
    let attempts = zerofee["timeline"]["attempts"].as_array().unwrap();
    assert_eq!(
        pluck(attempts, "at"),
        ["T+0", "T+1m", "T+6m", "T+36m", "T+2h36m", "T+10h36m"].map(Value::from)
    );
    let end = json!([{
        "status": "dead", "contract_status": "failed", "at": "T+10h36m",
        "earliest_ms": 38_160_000, "latest_ms": 38_160_000,
    }]);
    assert_eq!(zerofee["timeline"]["ends"], end);
    let last = &all[0]["timeline"]["attempts"][7];
    assert_eq!(
        (&last["at"], &last["earliest_ms"], &last["latest_ms"]),
        (&json!("T+0…21m10s"), &json!(0), &json!(1_270_000))
    );
    own.api.get("/v1/contracts/zerofe").await.refused(404, "not_found");
    server.with_key(None).get("/v1/contracts").await.refused(401, "unauthorized");
    let page = own.api.get("/v1/contracts?limit=4").await.is(200);
    let rest =
        own.api.get(&format!("/v1/contracts?limit=4&cursor={}", text(&page["next_cursor"]))).await.is(200);
    assert_eq!(pluck(rest["data"].as_array().unwrap(), "name"), ["standard", "zerofee"].map(Value::from));
}

#[tokio::test]
async fn the_operator_s_contracts_are_shown_beside_and_instead_of_the_built_in_ones() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("acme.toml"), ACME).unwrap();
    let own = "name = \"sendnomi\"\nbased_on = \"sendnomi\"\ntimeout = \"9s\"\n";
    std::fs::write(folder.path().join("mail.toml"), own).unwrap();
    let server = TestServer::start_with(&[("CONTRACTS_DIR", folder.path().to_str().unwrap())]).await;
    let acme = server.admin.get("/v1/contracts/acme").await.is(200);
    assert_eq!((&acme["built_in"], &acme["document"]["brand"]), (&json!(false), &json!("Acme")));
    assert_eq!(acme["timeline"]["attempts"].as_array().map(Vec::len), Some(2));
    let mail = server.admin.get("/v1/contracts/sendnomi").await.is(200);
    assert_eq!((&mail["built_in"], &mail["document"]["timeout"]), (&json!(false), &json!("9s")));
    assert_eq!(server.admin.get("/v1/contracts").await.is(200)["data"].as_array().map(Vec::len), Some(7));
}

/// Returns the exit code and the output.
async fn run(home: &NodeFolder, args: &[&str]) -> (Option<i32>, String) {
    let mut node = home.spawn(&[], &[&["contracts"], args].concat());
    let code = node.exited().await.code();
    (code, node.log())
}

#[tokio::test]
async fn the_command_shows_all_in_a_table_and_one_in_words_or_json_without_a_server() {
    let home = NodeFolder::new();
    let (code, table) = run(&home, &[]).await;
    assert_eq!(code, Some(0), "{table}");
    let line = table.lines().find(|line| line.starts_with("orientedos")).unwrap();
    assert!(line.contains("dead at T+7h21m") && line.ends_with("T+0 T+1m T+6m T+21m T+1h21m"), "{line}");
    let (code, one) = run(&home, &["sendnomi"]).await;
    assert_eq!(code, Some(0));
    assert!(one.contains("Dead at once: 4xx.") && one.contains("T+44h36m  attempt 8"), "{one}");
    let (_, document) = run(&home, &["sendnomi", "--json"]).await;
    let document: Value = serde_json::from_str(&document).unwrap();
    let server = TestServer::start().await;
    assert_eq!(document, server.admin.get("/v1/contracts/sendnomi").await.is(200), "as the API answers it");
    assert!(!home.store().exists(), "nothing was started");
}

#[tokio::test]
async fn the_command_reads_the_settings_that_serve_reads() {
    let mut home = NodeFolder::new();
    let folder = home.folder().join("contracts");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("acme.toml"), ACME).unwrap();
    let path = folder.to_str().unwrap();
    let (code, said) = run(&home, &["acme", "--contracts-dir", path]).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("the operator's own") && said.contains("x-acme-signature"), "{said}");
    let file = home.folder().join("posthaste.toml");
    std::fs::write(&file, format!("contracts_dir = \"{path}\"\n")).unwrap();
    assert_eq!(run(&home, &["acme", "--config", file.to_str().unwrap()]).await.0, Some(0));
    let (code, said) = run(&home, &["acme"]).await;
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("there is no contract `acme`; there are standard, zerofee"), "{said}");
    home.set("CONTRACTS_DIR", path);
    assert_eq!(run(&home, &["acme"]).await.0, Some(0));
    std::fs::write(folder.join("odd.toml"), ACME.replace("waits", "wait").replace("\"acme\"", "\"odd\""))
        .unwrap();
    let (code, said) = run(&home, &[]).await;
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("odd.toml: retry.wait: there is no such field; did you mean `waits`?"), "{said}");
}
