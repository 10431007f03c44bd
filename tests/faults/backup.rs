//! A backup under load, and a start from the copy: every event that was answered before the backup is in it.

use crate::harness::{NodeFolder, TestReceiver, wait_until};
use serde_json::{Value, json};
use std::{
    path::Path,
    process::{Command, Output},
    time::Duration,
};

const WAIT_LIMIT: Duration = Duration::from_secs(30);

pub(crate) fn posthaste(command: &str, store: &Path, file: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_posthaste"))
        .args([command, "--json", "--store", &format!("sqlite:{}", store.display())])
        .arg(file)
        .env_clear()
        .output()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_under_load_holds_every_event_answered_before_it_and_can_be_started() {
    let (home, receiver) = (NodeFolder::new(), TestReceiver::start().await);
    let mut node = home.start().await;
    let client = node.client.clone();
    client.make_app("a").await;
    client.make_endpoint("a", "e", &receiver.url("/e"), json!({})).await;
    for n in 0..200 {
        client.publish("a", &json!({ "id": format!("before-{n}"), "type": "t", "data": n })).await;
    }
    let load = tokio::spawn({
        let client = client.clone();
        async move {
            for n in 0..400 {
                client.publish("a", &json!({ "id": format!("during-{n}"), "type": "t", "data": n })).await;
            }
        }
    });
    let (store, copy) = (home.store(), home.folder().join("copy.db"));
    let taken = tokio::task::spawn_blocking({
        let (store, copy) = (store.clone(), copy.clone());
        move || posthaste("backup", &store, &copy)
    });
    let taken = taken.await.unwrap();
    assert!(taken.status.success(), "{}", String::from_utf8_lossy(&taken.stderr));
    let inventory: Value = serde_json::from_slice(&taken.stdout).unwrap();
    assert!(inventory["events"].as_u64().unwrap() >= 200, "{inventory}");
    load.await.unwrap();
    assert_eq!(node.stop().await, Some(0));

    let refused = posthaste("restore", &store, &copy);
    assert_eq!(refused.status.code(), Some(1), "a store that exists is not overwritten");
    let again = NodeFolder::new();
    let restored = posthaste("restore", &again.store(), &copy);
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    assert_eq!(serde_json::from_slice::<Value>(&restored.stdout).unwrap(), inventory);
    let node = again.start().await;
    for n in 0..200 {
        node.client.get(&format!("/v1/apps/a/events/before-{n}")).await.expect(200);
    }
    let known = node.client.try_publish("a", &json!({ "id": "before-7", "type": "t", "data": 7 })).await;
    known.unwrap().expect(200);
    wait_until("everything in the copy is delivered", WAIT_LIMIT, async || {
        let delivered = node.client.list("/v1/apps/a/deliveries?status=delivered").await.len();
        delivered as u64 == inventory["deliveries"].as_u64().unwrap()
    })
    .await;
}
