//! The largest body: exact to the byte, and refused before the rest of it is read.

use crate::{
    fixture::{TestApp, TestServer},
    raw_http::{ApiResponse, RawConnection, head},
};
use std::time::Duration;
use tokio::time::Instant;

const MIB: usize = 1024 * 1024;

/// An event whose body has exactly this many bytes.
fn event_of(bytes: usize) -> String {
    let (start, end) = (r#"{"type":"a","data":""#, r#""}"#);
    format!("{start}{}{end}", "x".repeat(bytes - start.len() - end.len()))
}

fn chunked(body: &str, size: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for chunk in body.as_bytes().chunks(size) {
        out.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        out.extend_from_slice(chunk);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"0\r\n\r\n");
    out
}

/// Publishes with these headers instead of a length, sending these bytes as they are.
async fn publish(
    app: &TestApp,
    wire: &mut RawConnection,
    headers: &[(&str, &str)],
    bytes: &[u8],
) -> Option<ApiResponse> {
    let path = app.path("/events");
    wire.send(head("POST", &path, app.api.key.as_deref(), headers).as_bytes()).await;
    wire.send(bytes).await;
    let answer = wire.answer().await?;
    app.api.description.check("POST", &path, &answer);
    Some(answer)
}

#[tokio::test]
async fn a_body_of_one_mib_is_taken_and_one_byte_more_is_refused() {
    let server = TestServer::start().await;
    let app = server.app().await;
    for bytes in [MIB - 1, MIB] {
        app.publish_raw(event_of(bytes)).await.is(202);
    }
    app.publish_raw(event_of(MIB + 1)).await.refused(413, "too_large");
    for (bytes, status) in [(MIB - 1, 202), (MIB, 202), (MIB + 1, 413)] {
        let mut wire = RawConnection::open(app.api.address).await;
        let body = chunked(&event_of(bytes), 10_000);
        let answer = publish(&app, &mut wire, &[("transfer-encoding", "chunked")], &body).await;
        assert_eq!(answer.unwrap().status, status, "{bytes} bytes in chunks");
    }
    let batch = format!(r#"{{"events":[{}]}}"#, event_of(MIB));
    let answer = app.api.send("POST", &app.path("/events/batch"), &[], Some(batch.as_bytes())).await;
    answer.refused(413, "too_large");
    let name = format!(r#"{{"name":"{}"}}"#, "x".repeat(MIB));
    server.admin.send("POST", "/v1/apps", &[], Some(name.as_bytes())).await.refused(413, "too_large");
}

#[tokio::test]
async fn an_announced_body_that_is_too_large_is_refused_before_any_of_it_comes() {
    let server = TestServer::start().await;
    let app = server.app().await;
    for length in ["1048577", "10737418240", "9223372036854775807"] {
        let begun = Instant::now();
        let mut wire = RawConnection::open(app.api.address).await;
        let answer = publish(&app, &mut wire, &[("content-length", length)], b"").await.unwrap();
        answer.refused(413, "too_large");
        assert!(begun.elapsed() < Duration::from_secs(5), "it waited for the body");
    }
    let mut wire = RawConnection::open(app.api.address).await;
    let headers = [("content-length", "1048577"), ("expect", "100-continue")];
    publish(&app, &mut wire, &headers, b"").await.unwrap().refused(413, "too_large");
}

#[tokio::test]
async fn a_client_that_waits_to_be_asked_is_asked_for_a_body_that_fits() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let body = event_of(1000);
    let headers = [("content-length", "1000"), ("expect", "100-continue")];
    let mut wire = RawConnection::open(app.api.address).await;
    wire.send(head("POST", &app.path("/events"), app.api.key.as_deref(), &headers).as_bytes()).await;
    assert!(wire.says(b"HTTP/1.1 100 Continue\r\n\r\n").await);
    wire.send(body.as_bytes()).await;
    wire.answer().await.unwrap().is(202);
}

#[tokio::test]
async fn a_body_without_an_end_is_refused_and_cut_off() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let mut wire = RawConnection::open(app.api.address).await;
    let headers = [("transfer-encoding", "chunked")];
    let first = [b"7fffffff\r\n", &vec![b'x'; 2 * MIB][..]].concat();
    let answer = publish(&app, &mut wire, &headers, &first).await.unwrap();
    answer.refused(413, "too_large");
    let begun = Instant::now();
    let more = vec![b'x'; MIB];
    let mut sent = 0;
    while wire.send(&more).await {
        sent += 1;
        assert!(sent < 64 && begun.elapsed() < Duration::from_secs(20), "it still reads after {sent} MiB");
    }
    app.publish("x").await;
}

#[tokio::test]
async fn a_client_that_is_still_sending_sees_why_it_was_refused() {
    let server = TestServer::start().await;
    let app = server.app().await;
    for bytes in [2 * MIB, 6 * MIB] {
        app.publish_raw(event_of(bytes)).await.refused(413, "too_large");
    }
}

#[tokio::test]
async fn the_operator_sets_the_limit() {
    let server = TestServer::start_with(&[("BODY_BYTES_MAX", "2KiB")]).await;
    let app = server.app().await;
    app.publish_raw(event_of(2048)).await.is(202);
    let refused = app.publish_raw(event_of(2049)).await.refused(413, "too_large");
    assert!(refused.detail.contains("2048"), "{}", refused.detail);
}
