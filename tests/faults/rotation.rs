//! Rotation of the encryption key while the node works: nothing is lost, also after a kill, and a key that is still
//! needed is asked for.

use crate::harness::{ENCRYPTION_KEY, NodeFolder, TestClient, TestReceiver, wait_until};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

const WAIT_LIMIT: Duration = Duration::from_mins(1);
const ENDPOINTS: usize = 120;

fn key(fill: u8) -> String {
    BASE64_STANDARD.encode([fill; 32])
}

async fn secrets(client: &TestClient) -> BTreeMap<String, Value> {
    let mut secrets = BTreeMap::new();
    for endpoint in client.list("/v1/apps/a/endpoints").await {
        let id = endpoint["id"].as_str().unwrap().to_owned();
        let secret = client.get(&format!("/v1/apps/a/endpoints/{id}/secret")).await.expect(200);
        secrets.insert(id, secret["secret"].clone());
    }
    secrets
}

async fn encryption(client: &TestClient) -> Value {
    client.get("/v1/system").await.expect(200)["encryption"].clone()
}

async fn until_rotated(client: &TestClient) {
    wait_until("everything is re-encrypted", WAIT_LIMIT, async || {
        encryption(client).await["rotating"] == false
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_are_re_encrypted_through_a_kill_and_changes_and_then_the_old_key_can_go() {
    let (mut home, receiver) = (NodeFolder::new(), TestReceiver::start().await);
    let mut node = home.start().await;
    node.client.make_app("a").await;
    for n in 0..ENDPOINTS {
        let more = json!({ "headers": { "authorization": format!("Bearer {n}") } });
        node.client.make_endpoint("a", &format!("e{n}"), &receiver.url("/e"), more).await;
    }
    let made = secrets(&node.client).await;
    let before = node.client.get("/v1/apps/a/endpoints/e0").await.expect(200);
    node.stop().await;

    home.set("ENCRYPTION_KEY", &format!("new:{},old:{ENCRYPTION_KEY}", key(7)));
    let mut node = home.start().await;
    wait_until("some are re-encrypted", WAIT_LIMIT, async || {
        encryption(&node.client).await["sealed"][0]["count"].as_u64().unwrap() > 5
    })
    .await;
    let half = encryption(&node.client).await;
    assert_eq!((half["key"].as_str(), half["sealed"][1]["key"].as_str()), (Some("new"), Some("old")));
    node.kill().await;

    let mut node = home.start().await;
    let client = node.client.clone();
    let mut expected = made.clone();
    // Meanwhile users rotate the secrets of endpoints that are yet to be re-encrypted, the last ones first.
    for n in (ENDPOINTS - 20..ENDPOINTS).rev() {
        let path = format!("/v1/apps/a/endpoints/e{n}/secret/rotate");
        let rotated = client.post(&path, &json!({ "overlap": "10ms" })).await.expect(200);
        expected.insert(format!("e{n}"), rotated["secret"].clone());
    }
    client.publish("a", &json!({ "type": "t", "data": 1 })).await;
    until_rotated(&client).await;
    let done = encryption(&client).await;
    assert_eq!(done["sealed"][1], json!({ "key": "old", "count": 0 }), "{done}");
    wait_until("deliveries went on", WAIT_LIMIT, async || receiver.count_at("/e") == ENDPOINTS).await;
    let said = "the others are needed only for older backups";
    wait_until("the log says so", WAIT_LIMIT, async || node.log().contains(said)).await;
    let after = client.get("/v1/apps/a/endpoints/e0").await.expect(200);
    assert_eq!(after, before, "nothing that people see of an endpoint has changed");
    assert!(client.list("/v1/audit?action=endpoint.changed").await.is_empty(), "no user changed anything");
    node.stop().await;

    home.set("ENCRYPTION_KEY", &format!("new:{}", key(7)));
    let mut node = home.start().await;
    assert_eq!(secrets(&node.client).await, expected);
    node.client.publish("a", &json!({ "type": "t", "data": 2 })).await;
    wait_until("it still delivers", WAIT_LIMIT, async || receiver.count_at("/e") == 2 * ENDPOINTS).await;
    let receipts = receiver.receipts_at("/e");
    let headers = receipts[ENDPOINTS..].iter().map(|receipt| receipt.header("authorization").to_owned());
    assert_eq!(headers.collect::<std::collections::BTreeSet<_>>().len(), ENDPOINTS);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_still_needed_is_asked_for_by_its_id_before_anything_is_served() {
    let mut home = NodeFolder::new();
    home.set("ENCRYPTION_KEY", &format!("old:{}", key(1)));
    let mut node = home.start().await;
    node.client.make_app("a").await;
    for n in 0..3 {
        node.client.make_endpoint("a", &format!("e{n}"), "http://127.0.0.1:9/", Value::Null).await;
    }
    node.stop().await;
    home.set("ENCRYPTION_KEY", &format!("new:{}", key(2)));
    let mut refused = home.spawn(&[], &["serve"]);
    assert_eq!(refused.exited().await.code(), Some(1));
    let said = refused.log();
    assert!(said.contains("\\\"old\\\" (3 secrets)") || said.contains("\"old\" (3 secrets)"), "{said}");
    assert!(said.contains("encryption_key") && !said.contains("posthaste is ready"), "{said}");
    assert!(!said.contains(&key(1)) && !said.contains(&key(2)), "{said}");
    home.set("ENCRYPTION_KEY", &format!("new:{},old:{}", key(2), key(1)));
    until_rotated(&home.start().await.client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_of_the_file_beside_the_store_can_move_into_the_settings_and_be_replaced() {
    let mut home = NodeFolder::new();
    home.unset("ENCRYPTION_KEY");
    let mut node = home.start().await;
    node.client.make_app("a").await;
    node.client.make_endpoint("a", "e", "http://127.0.0.1:9/", Value::Null).await;
    let made = secrets(&node.client).await;
    node.stop().await;
    let file = format!("{}.encryption-key", home.store().display());
    let of_file = std::fs::read_to_string(&file).unwrap().trim().to_owned();

    home.set("ENCRYPTION_KEY", &format!("new:{}", key(2)));
    let mut refused = home.spawn(&[], &["serve"]);
    assert_eq!(refused.exited().await.code(), Some(1));
    assert!(refused.log().contains(&file), "it says where the key is: {}", refused.log());

    // The same key under another name needs no re-encryption.
    home.set("ENCRYPTION_KEY", &format!("first:{of_file}"));
    let mut node = home.start().await;
    let same = encryption(&node.client).await;
    assert_eq!(
        same,
        json!({ "key": "first", "sealed": [{ "key": "first", "count": 1 }], "rotating": false })
    );
    node.stop().await;

    home.set("ENCRYPTION_KEY", &format!("new:{},{of_file}", key(2)));
    let mut node = home.start().await;
    until_rotated(&node.client).await;
    node.stop().await;
    home.set("ENCRYPTION_KEY", &format!("new:{}", key(2)));
    assert_eq!(secrets(&home.start().await.client).await, made);
}
