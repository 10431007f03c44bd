//! Outbound requests go through the proxy of the settings or not at all, and never through one of the environment.
//!
//! Endpoints lead to 127.0.0.2, where a canary listens; the proxy leads to 127.0.0.1, where the receiver is.

use crate::harness::{
    ConnectProxy, NodeFolder, TestClient, TestReceiver, attempt_classes, wait_for, wait_until,
};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::net::TcpListener;

const WAIT_LIMIT: Duration = Duration::from_secs(30);

/// Counts connections, and sends nothing.
async fn canary(address: (&str, u16)) -> (Arc<AtomicUsize>, u16) {
    let listener = TcpListener::bind(address).await.unwrap();
    let (port, count) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
    let counted = count.clone();
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    (count, port)
}

async fn publish(client: &TestClient, n: u32) -> String {
    let published = client.publish("a", &json!({ "type": "t", "data": n })).await;
    published["deliveries"][0]["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proxies_of_the_environment_are_ignored() {
    let (home, receiver) = (NodeFolder::new(), TestReceiver::start().await);
    let (called, port) = canary(("127.0.0.1", 0)).await;
    let set = |name: &str| format!("{name}=http://127.0.0.1:{port}");
    let names = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];
    let variables: Vec<String> = names.into_iter().map(set).collect();
    let mut wrapper = vec!["env"];
    wrapper.extend(variables.iter().map(String::as_str));
    let node = home.start_under(&wrapper, &[]).await;
    node.client.make_app("a").await;
    node.client.make_endpoint("a", "e", &receiver.url("/e"), Value::Null).await;
    publish(&node.client, 1).await;
    wait_until("it is delivered", WAIT_LIMIT, async || receiver.count_at("/e") == 1).await;
    assert_eq!(called.load(Ordering::SeqCst), 0, "a proxy of the environment was called");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_proxy_no_request_is_sent_and_no_endpoint_is_blamed() {
    let (mut home, receiver) = (NodeFolder::new(), TestReceiver::start().await);
    let (dialled, port) = canary(("127.0.0.2", receiver.address.port())).await;
    let tunnel = ConnectProxy::start("127.0.0.1:0").await;
    let proxy = tunnel.address;
    home.set("PROXY", &format!("http://{proxy}"));
    // Variables that would bypass the proxy, if they were read.
    let mut node = home.start_under(&["env", "NO_PROXY=*", "no_proxy=*"], &[]).await;
    let client = node.client.clone();
    client.make_app("a").await;
    client.make_endpoint("a", "e", &format!("http://127.0.0.2:{port}/e"), Value::Null).await;
    publish(&client, 1).await;
    wait_until("it went through the proxy", WAIT_LIMIT, async || receiver.count_at("/e") == 1).await;
    let head = tunnel.heads().remove(0);
    assert!(head.starts_with(&format!("CONNECT 127.0.0.2:{port} HTTP/1.1\r\n")), "{head}");

    // Proxy down: the next delivery needs a new connection, because the node was restarted.
    node.stop().await;
    tunnel.close().await;
    let node = home.start().await;
    let client = node.client.clone();
    let waiting = publish(&client, 2).await;
    let delivery = wait_for("it was tried", WAIT_LIMIT, async || {
        let delivery = client.delivery("a", &waiting).await;
        (!attempt_classes(&delivery).is_empty()).then_some(delivery)
    })
    .await;
    assert_eq!(attempt_classes(&delivery)[0], "local", "{delivery:#}");
    assert_eq!(delivery["attempt_count"], 0, "it used no attempt: {delivery:#}");
    let error = delivery["attempts"][0]["error"].as_str().unwrap();
    assert!(error.contains("the proxy cannot be reached"), "{error}");
    assert_eq!(receiver.count_at("/e"), 1);

    let _tunnel = ConnectProxy::start(&proxy.to_string()).await;
    wait_until("it is delivered once the proxy is back", WAIT_LIMIT, async || receiver.count_at("/e") == 2)
        .await;
    assert_eq!(dialled.load(Ordering::SeqCst), 0, "something was dialled past the proxy");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_proxy_settings_are_refused_without_repeating_the_password() {
    let mut home = NodeFolder::new();
    for (proxy, resolves, words) in [
        ("http://user:marker@proxy", "false", "proxy (variable POSTHASTE_PROXY): the value is not allowed"),
        ("ftp://user:marker@proxy:1", "false", "give http://host:port"),
        ("", "true", "proxy_resolves: there is no proxy"),
    ] {
        home.set("PROXY", proxy);
        home.set("PROXY_RESOLVES", resolves);
        let mut node = home.spawn(&[], &["serve"]);
        assert_ne!(node.exited().await.code(), Some(0));
        assert!(node.log().contains(words) && !node.log().contains("marker"), "{}", node.log());
    }
}
