//! Receivers that send too much, too slowly or nonsense, with the whole binary: each costs little, and none slows
//! down the other endpoints.

use crate::harness::{Behaviour, NodeFolder, TestReceiver, attempt_classes, wait_until};
use bytes::Bytes;
use serde_json::{Value, json};
use std::{process::Command, time::Duration};

const WAIT_LIMIT: Duration = Duration::from_mins(1);
const EVENTS: usize = 10;

/// A response of 64 MiB of zeros, compressed to 64 KiB.
fn gzip_bomb() -> Bytes {
    let program = "import gzip, sys; sys.stdout.buffer.write(gzip.compress(bytes(64 << 20)))";
    let made = Command::new("python3").args(["-c", program]).output();
    let bomb = made.expect("python3 is missing: run ./check, which installs it").stdout;
    assert!(bomb.starts_with(b"\x1f\x8b"));
    let head = format!("HTTP/1.1 500 X\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n", bomb.len());
    Bytes::from([head.into_bytes(), bomb].concat())
}

fn many_headers() -> Bytes {
    let lines: Vec<String> = (0..10_000).map(|n| format!("x-header-{n}: {n}\r\n")).collect();
    Bytes::from(format!("HTTP/1.1 200 OK\r\n{}content-length: 0\r\n\r\n", lines.concat()))
}

fn odd_bytes() -> Bytes {
    let head = b"HTTP/1.1 500 X\r\nx-odd: \xff\xfe\x80\r\ncontent-length: 12\r\n\r\n";
    Bytes::from([&head[..], b"\0\xff\xfe\xc3(\x1b[31m\r\n\0"].concat())
}

/// Hostile endpoints: name, behaviour, and the expected class of the attempt.
fn villains() -> Vec<(&'static str, Behaviour, &'static str)> {
    let endless = Behaviour::Script(|mut peer| {
        Box::pin(async move {
            let block = vec![b'x'; 64 * 1024];
            let mut alive = peer.send(b"HTTP/1.1 500 X\r\ntransfer-encoding: chunked\r\n\r\n").await;
            while alive {
                alive = peer.send(b"10000\r\n").await && peer.send(&block).await && peer.send(b"\r\n").await;
            }
        })
    });
    let endless_head = Behaviour::Script(|mut peer| {
        Box::pin(async move {
            let line = format!("x-more: {}\r\n", "y".repeat(4000));
            let mut alive = peer.send(b"HTTP/1.1 200 OK\r\n").await;
            while alive {
                alive = peer.send(line.as_bytes()).await;
            }
        })
    });
    vec![
        ("endless", endless, "http"),
        ("endless-head", endless_head, "connect"),
        ("bomb", Behaviour::Bytes(gzip_bomb()), "http"),
        ("drip", Behaviour::Drip(Duration::from_millis(20)), "timeout"),
        ("hang", Behaviour::Hang, "timeout"),
        ("odd", Behaviour::Bytes(odd_bytes()), "http"),
        ("headers", Behaviour::Bytes(many_headers()), "connect"),
        ("reset", Behaviour::Reset, "connect"),
        ("silent", Behaviour::Bytes(Bytes::new()), "connect"),
        ("nonsense", Behaviour::Bytes(Bytes::from_static(b"\0\0\0\x16\x03\x01 hello")), "connect"),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_receivers_cost_little_and_each_of_their_attempts_is_recorded() {
    let (home, receiver) = (NodeFolder::new(), TestReceiver::start().await);
    let mut node = home.start().await;
    let client = node.client.clone();
    client.make_app("a").await;
    let once = json!({ "overrides": { "timeout": "2s", "retry": { "waits": ["1h"], "jitter": "none" } } });
    client.make_endpoint("a", "healthy", &receiver.url("/healthy"), once.clone()).await;
    let villains = villains();
    for (name, behaviour, _) in &villains {
        receiver.behave(&format!("/{name}"), behaviour.clone());
        client.make_endpoint("a", name, &receiver.url(&format!("/{name}")), once.clone()).await;
    }
    let idle_kib = node.memory_kib("VmRSS");
    for n in 0..EVENTS {
        client.publish("a", &json!({ "type": "t", "data": n })).await;
    }
    wait_until("the healthy one gets everything", WAIT_LIMIT, async || {
        receiver.count_at("/healthy") == EVENTS
    })
    .await;
    wait_until("every hostile delivery has failed once", WAIT_LIMIT, async || {
        client.list("/v1/apps/a/deliveries?status=retrying").await.len() == EVENTS * villains.len()
    })
    .await;
    let most_kib = node.memory_kib("VmHWM");
    println!("memory: idle {idle_kib} KiB, at most {most_kib} KiB");
    assert!(most_kib < idle_kib + 48 * 1024, "idle {idle_kib} KiB, at most {most_kib} KiB");
    for (name, _, class) in &villains {
        let waiting = client.list(&format!("/v1/apps/a/deliveries?endpoint_id={name}")).await;
        assert_eq!(waiting.len(), EVENTS, "{name}");
        for delivery in waiting {
            let delivery = client.delivery("a", delivery["id"].as_str().unwrap()).await;
            // Some of them answer and close: a kept-alive connection may be gone at the next request.
            let mut classes = attempt_classes(&delivery);
            classes.retain(|class| *class != "stale_connection");
            assert_eq!(classes, [*class], "{name}: {delivery:#}");
            let attempts = delivery["attempts"].as_array().unwrap();
            check_body(name, &attempts[attempts.len() - 1]["response_body"]);
        }
    }
    assert_eq!(node.stop().await, Some(0));
}

/// Checks the kept part of a response body: its beginning, never decompressed.
fn check_body(name: &str, body: &Value) {
    let text = body.as_str().unwrap_or_default();
    match name {
        "endless" => assert_eq!(text, "x".repeat(1024)),
        "bomb" => assert!(text.starts_with('\u{1f}'), "{text:?}"),
        "odd" => assert!(text.starts_with('\0') && text.contains('\u{fffd}'), "{text:?}"),
        _ => {}
    }
}
