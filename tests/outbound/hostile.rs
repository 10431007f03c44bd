//! Receivers that send too much, too slowly, or nonsense.

use crate::receiver::{
    OK, ScriptedReceiver, assert_answered, assert_failed, client, post, post_within, request,
};
use posthaste::{
    domain::outcome::{Outcome, OutcomeClass},
    outbound::{HttpSender, OutboundRequest},
};
use std::{sync::Arc, time::Duration};
use tokio::{net::TcpListener, sync::mpsc, time::Instant};

/// Posts once to a receiver that sends `answer` and then neither closes nor says more.
async fn post_to(answer: Vec<u8>, timeout_ms: u64) -> Outcome {
    let answer = Arc::new(answer);
    let receiver = ScriptedReceiver::start(move |_, mut peer| {
        let answer = Arc::clone(&answer);
        async move {
            peer.request().await;
            peer.send(&answer).await;
            peer.hang().await;
        }
    })
    .await;
    post_within(&client(), &receiver.url(), timeout_ms).await
}

#[tokio::test]
async fn a_request_arrives_whole_with_its_headers_and_the_answer_is_returned() {
    let (sender, mut requests) = mpsc::unbounded_channel();
    let receiver = ScriptedReceiver::start(move |_, mut peer| {
        let sender = sender.clone();
        async move {
            while let Some(request) = peer.request().await {
                sender.send(request).unwrap();
                peer.send(
                    b"HTTP/1.1 503 Busy\r\nretry-after: 120\r\nx-why: later\r\ncontent-length: 4\r\n\r\nbusy",
                )
                .await;
            }
        }
    })
    .await;
    let extra: Arc<[_]> = Arc::new([("authorization".to_owned(), "Bearer t".to_owned())]);
    let outcome =
        client().post(OutboundRequest { extra_headers: extra, ..request(&receiver.url()) }).await.unwrap();
    assert_answered(&outcome, 503);
    assert_eq!((outcome.retry_after.as_deref(), &outcome.response_body[..]), (Some("120"), &b"busy"[..]));
    assert!(outcome.response_headers.contains(&("x-why".to_owned(), "later".into())), "{outcome:?}");
    assert_eq!((outcome.address, outcome.error), (Some(receiver.address), None));
    assert!(outcome.timings.connect_us.is_some() && outcome.timings.first_byte_us.is_some());
    assert_eq!((outcome.timings.dns_us, outcome.timings.tls_us), (None, None));
    let text = requests.recv().await.unwrap();
    assert!(text.starts_with("POST /hook HTTP/1.1\r\n"), "{text}");
    assert!(text.ends_with("\r\n\r\n{\"a\":1}"), "{text}");
    for header in [
        format!("host: {}\r\n", receiver.address),
        "content-type: application/json\r\n".to_owned(),
        "authorization: Bearer t\r\n".to_owned(),
        "accept-encoding: identity\r\n".to_owned(),
        "content-length: 7\r\n".to_owned(),
    ] {
        assert!(text.contains(&header), "{header} in {text}");
    }
}

#[tokio::test]
async fn an_endless_body_is_left_after_64_kib_and_the_status_counts() {
    let endless = |filled: usize| {
        let mut answer = b"HTTP/1.1 201 Created\r\ncontent-length: 10000000000\r\n\r\n".to_vec();
        answer.resize(answer.len() + filled, b'x');
        answer
    };
    let outcome = post_to(endless(64 * 1024), 10_000).await;
    assert_answered(&outcome, 201);
    assert_eq!(outcome.response_body, vec![b'x'; 1024]);
    assert_failed(&post_to(endless(63 * 1024), 300).await, OutcomeClass::Timeout, "while reading the answer");
}

#[tokio::test]
async fn a_body_without_length_that_never_ends_is_left_and_its_connection_closed() {
    let (sender, mut closed) = mpsc::unbounded_channel();
    let receiver = ScriptedReceiver::start(move |_, mut peer| {
        let sender = sender.clone();
        async move {
            peer.request().await;
            peer.send(b"HTTP/1.1 200 OK\r\n\r\n").await;
            while peer.send(&[b'x'; 16 * 1024]).await {}
            sender.send(()).unwrap();
        }
    })
    .await;
    let client = client();
    assert_answered(&post(&client, &receiver.url()).await, 200);
    assert_eq!(client.idle(), 0);
    closed.recv().await.unwrap();
}

#[tokio::test]
async fn tiny_chunks_cannot_stretch_the_limit_on_what_is_read() {
    let mut answer = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for _ in 0..60_000 {
        answer.extend_from_slice(b"1\r\nx\r\n");
    }
    assert_answered(&post_to(answer, 10_000).await, 200);
}

#[tokio::test]
async fn a_compressed_bomb_stays_compressed() {
    let mut answer = b"HTTP/1.1 500 No\r\ncontent-encoding: gzip\r\ncontent-length: 12\r\n\r\n".to_vec();
    let bomb = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xec, 0xc1];
    answer.extend_from_slice(&bomb);
    let outcome = post_to(answer, 10_000).await;
    assert_answered(&outcome, 500);
    assert_eq!(outcome.response_body, bomb.to_vec());
}

#[tokio::test]
async fn a_dripping_answer_ends_at_the_deadline_wherever_it_is() {
    for (start, drop, words) in [
        (&b""[..], &b""[..], "timed out after 300 ms while waiting for the answer"),
        (b"HTTP/1.1 200 OK\r\nx: ", b"x", "while waiting for the answer"),
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n",
            b"x",
            "while reading the answer (the answer began with status 200)",
        ),
    ] {
        let receiver = ScriptedReceiver::start(move |_, mut peer| async move {
            peer.request().await;
            peer.send(start).await;
            while peer.send(drop).await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
        let began = Instant::now();
        assert_failed(&post_within(&client(), &receiver.url(), 300).await, OutcomeClass::Timeout, words);
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(300) && took < Duration::from_secs(2), "{took:?}");
    }
}

#[tokio::test]
async fn any_bytes_are_kept_as_they_came() {
    let body = b"\0\xff\xfe\xed\xa0\x80\r\n\x1b[31m\xef\xbb\xbf</script>";
    let mut answer = b"HTTP/1.1 400 B\xc3\xa4d\r\nx-odd: \x1b[31m\xff\r\ncontent-length: ".to_vec();
    answer.retain(|&byte| byte != 0x1b);
    answer.extend_from_slice(format!("{}\r\n\r\n", body.len()).as_bytes());
    answer.extend_from_slice(body);
    let outcome = post_to(answer, 10_000).await;
    assert_answered(&outcome, 400);
    assert_eq!(outcome.response_body, body.to_vec());
    assert!(outcome.response_headers.contains(&("x-odd".to_owned(), b"[31m\xff"[..].into())), "{outcome:?}");
}

#[tokio::test]
async fn kept_headers_are_few_and_short() {
    let headers: Vec<String> = (0..80).map(|n| format!("x-{n}: {}\r\n", "v".repeat(600))).collect();
    let answer = format!("HTTP/1.1 500 No\r\n{}content-length: 0\r\n\r\n", headers.concat());
    let outcome = post_to(answer.into_bytes(), 10_000).await;
    assert_answered(&outcome, 500);
    assert_eq!(outcome.response_headers.len(), 32);
    assert!(outcome.response_headers.iter().all(|(name, value)| name.len() + value.len() == 256));
}

#[tokio::test]
async fn abused_heads_fail_clean() {
    let repeat =
        |line: &str, times| [b"HTTP/1.1 200 OK\r\n", line.repeat(times).as_bytes(), b"\r\n"].concat();
    for (answer, words) in [
        (repeat("x: y\r\n", 10_000), "the head of the answer is too large"),
        (repeat(&format!("x: {}\r\n", "y".repeat(1 << 20)), 1), "the head of the answer is too large"),
        (repeat("content-length: 5\r\ncontent-length: 6\r\n", 1), "the answer is not valid HTTP"),
        (repeat("content-length: -1\r\n", 1), "the answer is not valid HTTP"),
        (repeat("x: a\r\n b\r\n", 1), "the answer is not valid HTTP"),
        (repeat("x\0y: a\r\n", 1), "the answer is not valid HTTP"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n".to_vec(), "the answer is not valid HTTP"),
        (b"HTTP/1.1 999999 Odd\r\n\r\n".to_vec(), "the answer is not valid HTTP"),
    ] {
        assert_failed(&post_to(answer, 10_000).await, OutcomeClass::Connect, words);
    }
}

#[tokio::test]
async fn ten_interim_answers_are_enough() {
    let flood = |times| {
        let mut answer = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n".repeat(times);
        answer.extend_from_slice(OK);
        answer
    };
    assert_answered(&post_to(flood(10), 10_000).await, 200);
    assert_failed(&post_to(flood(11), 10_000).await, OutcomeClass::Connect, "too many interim answers");

    let receiver = ScriptedReceiver::start(|_, mut peer| async move {
        peer.request().await;
        while peer.send(b"HTTP/1.1 100 Continue\r\n\r\n").await {}
    })
    .await;
    assert_failed(&post(&client(), &receiver.url()).await, OutcomeClass::Connect, "too many interim answers");
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_no_answer() {
    for (answer, words) in [
        (&b""[..], "the connection was closed before a complete answer came"),
        (b"HTTP/1.1 2", "the connection was closed before a complete answer came"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", "(the answer began with status 200)"),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n",
            "(the answer began with status 200)",
        ),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", "the answer is not valid HTTP"),
    ] {
        let receiver = ScriptedReceiver::start(move |_, mut peer| async move {
            peer.request().await;
            peer.send(answer).await;
        })
        .await;
        assert_failed(&post(&client(), &receiver.url()).await, OutcomeClass::Connect, words);
    }
}

#[tokio::test]
async fn a_receiver_that_hangs_up_at_once_or_is_not_there_is_a_connect_failure() {
    let receiver = ScriptedReceiver::start(|_, peer| async move { drop(peer) }).await;
    assert_failed(&post(&client(), &receiver.url()).await, OutcomeClass::Connect, "");

    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    assert_failed(
        &post(&client(), &format!("http://{closed}/")).await,
        OutcomeClass::Connect,
        "connection refused",
    );
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_nothing_more() {
    let canary = ScriptedReceiver::answering(OK).await;
    for status in [300, 301, 302, 303, 305, 307, 308] {
        let answer = format!(
            "HTTP/1.1 {status} Go\r\nlocation: {url}\r\nrefresh: 0; url={url}\r\ncontent-length: 0\r\n\r\n",
            url = canary.url()
        );
        assert_answered(&post_to(answer.into_bytes(), 10_000).await, status);
    }
    assert_eq!(canary.accepted(), 0);
}

#[tokio::test]
async fn an_unrequested_upgrade_is_only_an_answer() {
    let answer = b"HTTP/1.1 101 Switching\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n\x81\x05hello";
    let outcome = post_to(answer.to_vec(), 1000).await;
    assert_answered(&outcome, 101);
}

#[tokio::test]
async fn plain_http_is_refused_where_https_is_required() {
    let canary = ScriptedReceiver::answering(OK).await;
    let outcome =
        client().post(OutboundRequest { https_only: true, ..request(&canary.url()) }).await.unwrap();
    assert_failed(&outcome, OutcomeClass::AddressRefused, "https required");
    assert_eq!(canary.accepted(), 0);
}

#[tokio::test]
async fn an_early_answer_to_a_large_request_counts_and_the_connection_is_not_kept() {
    let receiver = ScriptedReceiver::start(|_, mut peer| async move {
        let mut start = [0; 1024];
        tokio::io::AsyncReadExt::read_exact(&mut peer.stream, &mut start).await.unwrap();
        peer.send(b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n").await;
        std::future::pending::<()>().await;
    })
    .await;
    let client = client();
    let large = OutboundRequest { body: vec![b'x'; 32 << 20].into(), ..request(&receiver.url()) };
    assert_answered(&client.post(large).await.unwrap(), 413);
    assert_eq!(client.idle(), 0);
}
