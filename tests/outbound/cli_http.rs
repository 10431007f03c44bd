//! HTTP requests of the command line: to any server, with the whole answer, and a reason when there is none.

use crate::receiver::ScriptedReceiver;
use bytes::Bytes;
use http::{HeaderMap, Method};
use posthaste::outbound::{CliClient, ClientRequest};
use std::time::Duration;
use tokio::net::TcpListener;

fn client_request(runner: &CliClient, url: &str, timeout_ms: u64) -> ClientRequest {
    ClientRequest {
        method: Method::POST,
        target: runner.target(url).unwrap(),
        headers: HeaderMap::new(),
        body: Bytes::from_static(b"{}"),
        timeout: Duration::from_millis(timeout_ms),
    }
}

#[tokio::test]
async fn the_whole_of_a_long_answer_comes_back() {
    let receiver = ScriptedReceiver::start(|_, mut peer| async move {
        let request = peer.request().await.unwrap();
        assert!(request.starts_with("POST /hook HTTP/1.1\r\n"), "{request}");
        assert!(request.contains("content-type: application/json\r\n") && request.ends_with("{}"));
        peer.send(b"HTTP/1.1 201 Created\r\ncontent-length: 1000000\r\n\r\n").await;
        peer.send(&vec![b'x'; 1_000_000]).await;
        peer.hang().await;
    })
    .await;
    let runner = CliClient::new().unwrap();
    let answer = runner.send(client_request(&runner, &receiver.url(), 10_000)).await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.body().len()), (201, 1_000_000));
}

#[tokio::test]
async fn a_request_that_fails_gives_the_reason() {
    let runner = CliClient::new().unwrap();
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let silent = ScriptedReceiver::start(|_, peer| peer.hang()).await;
    let rude = ScriptedReceiver::start(|_, mut peer| async move {
        peer.request().await;
    })
    .await;
    let plain = ScriptedReceiver::start(|_, mut peer| async move {
        peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        peer.hang().await;
    })
    .await;
    let flood = ScriptedReceiver::start(|_, mut peer| async move {
        peer.request().await;
        peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 10000000000\r\n\r\n").await;
        while peer.send(&[b'x'; 8192]).await {}
    })
    .await;
    for (url, words) in [
        (format!("http://{nobody}/"), "connection refused"),
        (silent.url(), "timed out after 300 ms while waiting for the answer"),
        (rude.url(), "closed before a complete answer"),
        (flood.url(), "the answer is too large"),
        (format!("https://{}/", plain.address), "does not speak TLS"),
    ] {
        let timeout_ms = if words.starts_with("timed out") { 300 } else { 10_000 };
        let error = runner.send(client_request(&runner, &url, timeout_ms)).await.unwrap_err().to_string();
        assert!(error.contains(words), "{url}: {error}");
    }
}
