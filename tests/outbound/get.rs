//! The GET to a health URL: the same rules as for every other request, and the connections of the endpoint queue are
//! left alone.

use crate::receiver::{
    ENDPOINT, ScriptedReceiver, assert_answered, assert_failed, client, client_with, loopback, post, request,
};
use posthaste::{
    domain::outcome::OutcomeClass,
    outbound::{ClientOptions, HttpSender, OutboundRequest},
};
use std::time::Duration;
use tokio::sync::mpsc;

#[tokio::test]
async fn a_get_asks_for_its_path_and_sends_no_body() {
    let (sender, mut requests) = mpsc::unbounded_channel();
    let receiver = ScriptedReceiver::start(move |_, mut peer| {
        let sender = sender.clone();
        async move {
            while let Some(request) = peer.request().await {
                sender.send(request).unwrap();
                peer.send(b"HTTP/1.1 204 No Content\r\n\r\n").await;
            }
        }
    })
    .await;
    assert_answered(&client().get(request(&receiver.url())).await.unwrap(), 204);
    let text = requests.recv().await.unwrap();
    assert!(text.starts_with("GET /hook HTTP/1.1\r\n") && text.ends_with("\r\n\r\n"), "{text}");
    assert!(!text.contains("content-length") && !text.contains("transfer-encoding"), "{text}");
    assert!(text.contains("accept-encoding: identity\r\n"), "{text}");
}

#[tokio::test]
async fn a_get_goes_only_where_a_post_may_go_and_follows_nothing() {
    let canary = ScriptedReceiver::answering(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let guarded = client_with(ClientOptions::default(), &[("hooks.example.com", &[&["127.0.0.1"]])]);
    let by_name = format!("http://hooks.example.com:{}/", canary.address.port());
    for url in [canary.url(), by_name] {
        assert_failed(
            &guarded.get(request(&url)).await.unwrap(),
            OutcomeClass::AddressRefused,
            "address not allowed",
        );
    }
    let https_only = OutboundRequest { https_only: true, ..request(&canary.url()) };
    assert_failed(&client().get(https_only).await.unwrap(), OutcomeClass::AddressRefused, "https required");
    let location = format!("HTTP/1.1 302 Found\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", canary.url());
    let mover = ScriptedReceiver::answering(location.leak().as_bytes()).await;
    assert_answered(&client().get(request(&mover.url())).await.unwrap(), 302);
    assert_eq!(canary.accepted(), 0);
}

#[tokio::test]
async fn a_get_that_hangs_or_never_ends_is_bounded() {
    let silent = ScriptedReceiver::start(|_, mut peer| async move {
        peer.request().await;
        peer.hang().await;
    })
    .await;
    let brief = OutboundRequest { timeout: Duration::from_millis(100), ..request(&silent.url()) };
    assert_failed(&client().get(brief).await.unwrap(), OutcomeClass::Timeout, "while waiting for the answer");
    let endless = ScriptedReceiver::start(|_, mut peer| async move {
        peer.request().await;
        peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 10000000000\r\n\r\n").await;
        while peer.send(&[b'x'; 8192]).await {}
    })
    .await;
    assert_answered(&client().get(request(&endless.url())).await.unwrap(), 200);
}

#[tokio::test]
async fn a_get_neither_uses_nor_closes_the_connections_of_its_endpoint_queue() {
    let receiver = ScriptedReceiver::answering(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let health = ScriptedReceiver::answering(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let client = client_with(ClientOptions { policy: loopback(), ..ClientOptions::default() }, &[]);
    assert_answered(&post(&client, &receiver.url()).await, 200);
    assert_answered(
        &client.get(OutboundRequest { endpoint_id: ENDPOINT, ..request(&health.url()) }).await.unwrap(),
        200,
    );
    assert_answered(
        &client.get(OutboundRequest { endpoint_id: ENDPOINT, ..request(&receiver.url()) }).await.unwrap(),
        200,
    );
    assert_eq!(
        (client.idle(), receiver.accepted()),
        (1, 2),
        "the endpoint queue still has its one connection"
    );
    assert_answered(&post(&client, &receiver.url()).await, 200);
    assert_eq!(receiver.accepted(), 2, "and uses it again");
}
