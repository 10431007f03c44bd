//! Refusals in one form, connections that survive them, and clients that are slow, odd or broken.

use crate::{
    fixture::TestServer,
    raw_http::{RawConnection, head},
};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

#[tokio::test]
async fn paths_and_methods_that_do_not_exist_are_problems() {
    let server = TestServer::start().await;
    let app = server.app().await;
    for path in [
        "/nothing",
        "/v1",
        "/v1/",
        "/v1/apps/",
        "/v2/apps",
        "/v1/nothing",
        "/v1/apps/x/nothing",
        "/livez/",
        "/V1/apps",
        "//v1/apps",
    ] {
        server.admin.get(path).await.refused(404, "not_found");
    }
    for (method, path, allowed) in [
        ("PUT", "/v1/apps".to_owned(), "POST,GET,HEAD"),
        ("DELETE", "/v1/apps".into(), "POST,GET,HEAD"),
        ("POST", "/livez".into(), "GET,HEAD"),
        ("OPTIONS", "/v1/apps".into(), "POST,GET,HEAD"),
        ("PURGE", app.path("/deliveries"), "GET,HEAD"),
        ("GET", app.path("/deliveries/x/retry"), "POST"),
    ] {
        let answer = server.admin.send(method, &path, &[], None).await;
        answer.refused(405, "method_not_allowed");
        assert_eq!(answer.header("allow"), Some(allowed), "{method} {path}");
    }
}

#[tokio::test]
async fn a_head_request_has_the_headers_of_a_get_and_no_body() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let mut wire = RawConnection::open(app.api.address).await;
    for path in ["/livez".to_owned(), app.path(""), app.path("/nothing"), app.path("/events")] {
        let got = app.api.get(&path).await;
        let answer = app.api.send_on(&mut wire, "HEAD", &path, &[], None).await.unwrap();
        assert_eq!((answer.status, answer.body.len()), (got.status, 0), "{path}");
        for name in ["content-type", "content-length", "cache-control"] {
            assert_eq!(answer.header(name), got.header(name), "{path}: {name}");
        }
    }
    app.api.send_on(&mut wire, "GET", "/livez", &[], None).await.unwrap().is(200);
}

#[tokio::test]
async fn a_connection_lives_on_after_every_refusal() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let nobody = server.with_key(None);
    let mut wire = RawConnection::open(app.api.address).await;
    let events = app.path("/events");
    for round in 0..3 {
        for (api, method, path, headers, body, status) in [
            (&app.api, "GET", "/nothing", None, None, 404),
            (&nobody, "POST", events.as_str(), None, Some("{\"type\":\"a\",\"data\":1}"), 401),
            (&app.api, "POST", "/v1/apps/nobody/events", None, Some("{\"type\":\"a\",\"data\":1}"), 404),
            (&app.api, "PUT", "/v1/apps", None, Some("unread"), 405),
            (&app.api, "POST", &events, None, Some("{"), 400),
            (&app.api, "POST", &events, None, Some("{\"type\":\"a b\",\"data\":1}"), 422),
            (&app.api, "POST", &events, Some(("content-encoding", "gzip")), Some("\u{1f}"), 415),
            (&app.api, "POST", "/v1/apps", None, Some("[]"), 400),
            (&app.api, "GET", "/v1/apps?limit=0", None, None, 422),
        ] {
            let headers: Vec<(&str, &str)> = headers.into_iter().collect();
            let answer = api.send_on(&mut wire, method, path, &headers, body.map(str::as_bytes)).await;
            assert_eq!(answer.map(|answer| answer.status), Some(status), "round {round}: {method} {path}");
        }
        let answer =
            app.api.send_on(&mut wire, "POST", &events, &[], Some(b"{\"type\":\"a\",\"data\":1}")).await;
        answer.unwrap().is(202);
    }
}

#[tokio::test]
async fn requests_that_come_together_are_answered_in_order() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let mut wire = RawConnection::open(app.api.address).await;
    let mut all = String::new();
    for n in 0..20 {
        let body = json!({ "id": format!("e{n}"), "type": "a", "data": n }).to_string();
        let length = body.len().to_string();
        all += &head("POST", &app.path("/events"), app.api.key.as_deref(), &[("content-length", &length)]);
        all += &body;
    }
    assert!(wire.send(all.as_bytes()).await);
    for n in 0..20 {
        assert_eq!(wire.answer().await.unwrap().is(202)["id"], format!("e{n}"));
    }
}

#[tokio::test]
async fn compressed_bodies_are_refused_and_plain_ones_need_no_content_type() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let event = br#"{"type":"a","data":1}"#;
    for encoding in ["gzip", "br", "zstd", "identity, gzip"] {
        let answer =
            app.api.send("POST", &app.path("/events"), &[("content-encoding", encoding)], Some(event)).await;
        answer.refused(415, "unsupported_encoding");
    }
    app.api
        .send("POST", &app.path("/events"), &[("content-encoding", "identity")], Some(event))
        .await
        .is(202);
    let mut wire = RawConnection::open(app.api.address).await;
    let bare = head("POST", &app.path("/events"), app.api.key.as_deref(), &[("content-length", "21")]);
    wire.send(&[bare.as_bytes(), event].concat()).await;
    wire.answer().await.unwrap().is(202);
}

#[tokio::test]
async fn what_is_no_http_or_too_much_of_it_is_refused_and_hurts_nobody() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let good = head("GET", "/livez", None, &[]);
    let long = "x".repeat(300_000);
    let many = "x-many: 1\r\n".repeat(200);
    let rude = [
        "hello\r\n\r\n".to_owned(),
        "GET /livez\r\n\r\n".into(),
        "GET /livez HTTP/3.0\r\n\r\n".into(),
        format!("GET /{long} HTTP/1.1\r\nhost: x\r\n\r\n"),
        format!("GET /livez HTTP/1.1\r\nhost: x\r\nx-long: {long}\r\n\r\n"),
        format!("GET /livez HTTP/1.1\r\nhost: x\r\n{many}\r\n"),
        "POST /v1/apps HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}".into(),
        "POST /v1/apps HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n{}".into(),
        "GET /livez HTTP/1.1\r\nhost: x\r\nbad header: 1\r\n\r\n".into(),
        "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}".repeat(20),
    ];
    for bytes in &rude {
        let mut wire = RawConnection::open(app.api.address).await;
        wire.send(bytes.as_bytes()).await;
        if let Some(answer) = wire.answer().await {
            assert!((400..=431).contains(&answer.status), "{bytes:.60}: {answer:?}");
        }
        assert!(wire.is_closed().await, "{bytes:.60}");
    }
    let mut wire = RawConnection::open(app.api.address).await;
    wire.send(good.as_bytes()).await;
    wire.answer().await.unwrap().is(200);
    let mut wire = RawConnection::open(app.api.address).await;
    wire.send(b"GET /livez HTTP/1.0\r\n\r\n").await;
    wire.answer().await.unwrap().is(200);
    assert!(wire.is_closed().await, "as HTTP/1.0 expects it");
}

#[tokio::test]
async fn a_message_framed_two_ways_does_not_smuggle_a_second_request() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let mut wire = RawConnection::open(app.api.address).await;
    let hidden = format!(
        "DELETE {} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\r\n",
        app.path(""),
        crate::harness::ADMIN_KEY
    );
    let headers = [("content-length", hidden.len().to_string()), ("transfer-encoding", "chunked".into())];
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let first = head("POST", &app.path("/events"), app.api.key.as_deref(), &headers);
    wire.send(format!("{first}0\r\n\r\n{hidden}").as_bytes()).await;
    if let Some(answer) = wire.answer().await {
        assert_eq!(answer.status, 400, "{answer:?}");
    }
    assert!(wire.is_closed().await, "what follows a message with two lengths is not read");
    app.get("").await.is(200);
}

#[tokio::test]
async fn bodies_and_heads_that_do_not_come_are_given_up() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let publish = head("POST", &app.path("/events"), app.api.key.as_deref(), &[("content-length", "1000")]);
    let manage = head("POST", "/v1/apps", app.api.key.as_deref(), &[("content-length", "1000")]);
    let begun = Instant::now();
    let slow_body = async |request: String| {
        let mut wire = RawConnection::open(app.api.address).await;
        wire.send(format!("{request}{{\"type\"").as_bytes()).await;
        let answer = wire.answer().await.expect("an answer");
        answer.refused(408, "timeout");
        assert!((25..40).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
        assert!(wire.is_closed().await);
    };
    let slow_head = async {
        let mut wire = RawConnection::open(app.api.address).await;
        for byte in "GET /livez HTTP/1.1\r\nhost: posthaste.test\r\nx-slow: yes\r\n".bytes() {
            if !wire.send(&[byte]).await || wire.is_closed_by_now() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        assert!((8..20).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    };
    let broken_off = async {
        let mut wire = RawConnection::open(app.api.address).await;
        wire.send(publish.as_bytes()).await;
        wire.send(b"{\"type\":\"a\",\"data\":1}").await;
        drop(wire);
    };
    tokio::join!(slow_body(publish.clone()), slow_body(manage), slow_head, broken_off);
    assert_eq!(app.get("/events").await.is(200)["data"], json!([]), "half an event is none");
}
