//! Control of the checker: it must find the losses of a store that was set back.

use crate::{
    checker::{DeliveryFigures, copy_store, dump},
    harness::{Behaviour, NodeFolder, TestReceiver, wait_until},
    producer::Producers,
};
use serde_json::json;
use std::time::Duration;

const WAIT_LIMIT: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_checker_finds_the_losses_of_an_older_store_and_none_of_the_real_one() {
    let (home, receiver, producers) = (NodeFolder::new(), TestReceiver::start().await, Producers::default());
    receiver.behave("/one", Behaviour::Status(503));
    let mut node = home.start().await;
    node.client.make_app("a").await;
    let retry = json!({ "overrides": { "retry": { "waits": ["2s", "2s", "2s"], "jitter": "none" } } });
    node.client.make_endpoint("a", "one", &receiver.url("/one"), retry).await;
    producers.follow(&node.client);
    for n in 0..20 {
        producers.publish(&format!("early-{n}")).await;
    }
    node.kill().await;
    let (early, late) = (home.run_folder().join("early.db"), home.run_folder().join("late.db"));
    copy_store(&home.store(), &early);
    let mut node = home.start().await;
    producers.follow(&node.client);
    for n in 0..30 {
        producers.publish(&format!("late-{n}")).await;
    }
    node.kill().await;
    copy_store(&home.store(), &late);

    receiver.behave("/one", Behaviour::Ok);
    let judged = async |copy: &std::path::Path, count: usize| {
        for suffix in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{suffix}", home.store().display()));
        }
        copy_store(copy, &home.store());
        let mut node = home.start().await;
        wait_until("what the store knows is delivered", WAIT_LIMIT, async || {
            node.client.list("/v1/apps/a/deliveries?status=delivered").await.len() == count
        })
        .await;
        assert_eq!(node.stop().await, Some(0));
        DeliveryFigures::of(&producers.sent(), &receiver.receipts(), &dump(&home.store()))
    };
    let forgetful = judged(&early, 20).await;
    println!("forgetful: {forgetful}");
    assert_eq!(forgetful.lost, 30, "the checker did not notice");
    let real = judged(&late, 50).await;
    println!("real: {real}");
    assert_eq!((real.lost, real.phantom, real.stuck, real.changed), (0, 0, 0, 0), "{real}");
}
