//! Kept-alive connections: used again when that is safe, and never when there is any doubt.

use crate::receiver::{
    ENDPOINT, OK, ScriptedReceiver, ScriptedResolver, assert_answered, assert_failed, client, client_with,
    loopback, post, request,
};
use posthaste::{
    domain::{address_policy::AddressPolicy, id::EndpointId, outcome::OutcomeClass},
    outbound::{ClientOptions, HttpClient, HttpSender, OutboundRequest},
};
use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

#[tokio::test]
async fn an_endpoint_queue_keeps_its_connection_for_every_form_of_answer() {
    for answer in [
        OK,
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 500 No\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx-trailer: 1\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok",
    ] {
        let receiver = ScriptedReceiver::answering(answer).await;
        let client = client();
        for n in 0..20 {
            let outcome = post(&client, &receiver.url()).await;
            assert_eq!(outcome.class, OutcomeClass::Http, "{outcome:?}");
            assert_eq!(outcome.timings.connect_us.is_none(), n > 0);
            assert_eq!(outcome.address, Some(receiver.address));
        }
        assert_eq!(receiver.accepted(), 1, "{}", String::from_utf8_lossy(answer));
    }
}

#[tokio::test]
async fn a_connection_is_closed_where_the_receiver_asks_for_it() {
    for answer in [
        &b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok"[..],
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
    ] {
        let receiver = ScriptedReceiver::answering(answer).await;
        let client = client();
        for _ in 0..3 {
            assert_answered(&post(&client, &receiver.url()).await, 200);
        }
        assert_eq!(receiver.accepted(), 3);
    }
}

#[tokio::test]
async fn endpoint_queues_do_not_share_connections_and_fresh_opens_a_new_one() {
    let receiver = ScriptedReceiver::answering(OK).await;
    let client = client();
    for queue in [1, 2, 1, 2] {
        client
            .post(OutboundRequest { endpoint_id: EndpointId::from_i64(queue), ..request(&receiver.url()) })
            .await
            .unwrap();
    }
    assert_eq!((receiver.accepted(), client.idle()), (2, 2));
    client
        .post(OutboundRequest {
            fresh: true,
            endpoint_id: EndpointId::from_i64(1),
            ..request(&receiver.url())
        })
        .await
        .unwrap();
    assert_eq!(receiver.accepted(), 3);
}

#[tokio::test]
async fn a_queue_whose_url_changes_closes_its_old_connections() {
    let (old, new) = (ScriptedReceiver::answering(OK).await, ScriptedReceiver::answering(OK).await);
    let client = client();
    post(&client, &old.url()).await;
    assert_answered(&post(&client, &new.url()).await, 200);
    assert_eq!((old.accepted(), new.accepted(), client.idle()), (1, 1, 1));
}

#[tokio::test]
async fn idle_connections_are_bounded_and_swept() {
    let receiver = ScriptedReceiver::answering(OK).await;
    let post_at_once = async |client: &HttpClient, queues: i64| {
        let posts = (0..queues).map(|queue| OutboundRequest {
            endpoint_id: EndpointId::from_i64(queue % 2),
            ..request(&receiver.url())
        });
        let client = &client;
        let mut waiting: Vec<_> = posts.map(|request| client.post(request)).collect();
        std::future::poll_fn(|cx| {
            waiting.retain_mut(|post| post.as_mut().poll(cx).is_pending());
            if waiting.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    };
    let options = |idle_per_queue_max, idle_max, idle_for_max| ClientOptions {
        policy: loopback(),
        idle_per_queue_max,
        idle_max,
        idle_for_max,
        ..ClientOptions::default()
    };
    let minute = Duration::from_mins(1);
    let client = client_with(options(3, 100, minute), &[]);
    post_at_once(&client, 20).await;
    assert_eq!(client.idle(), 6);
    assert!(client.sweep().is_some());
    assert_eq!(client.idle(), 6);

    let client = client_with(options(100, 5, minute), &[]);
    post_at_once(&client, 20).await;
    assert_eq!(client.idle(), 5);

    let client = client_with(options(100, 100, Duration::ZERO), &[]);
    post_at_once(&client, 20).await;
    assert_eq!(client.idle(), 20);
    assert_eq!(client.sweep(), None);
    assert_eq!(client.idle(), 0);
}

/// Answers the first request of a connection and loses the connection at the second.
async fn losing(reset: bool) -> ScriptedReceiver {
    ScriptedReceiver::start(move |_, mut peer| async move {
        peer.request().await;
        peer.send(OK).await;
        peer.request().await;
        if reset {
            peer.stream.set_zero_linger().unwrap();
        }
    })
    .await
}

#[tokio::test]
async fn a_reused_connection_lost_before_any_byte_is_stale_and_is_not_sent_again_by_itself() {
    for reset in [false, true] {
        let receiver = losing(reset).await;
        let client = client();
        assert_answered(&post(&client, &receiver.url()).await, 200);
        let outcome = post(&client, &receiver.url()).await;
        assert_failed(
            &outcome,
            OutcomeClass::StaleConnection,
            "the kept-alive connection was closed before an answer came",
        );
        assert_eq!(receiver.accepted(), 1);
        assert_answered(
            &client.post(OutboundRequest { fresh: true, ..request(&receiver.url()) }).await.unwrap(),
            200,
        );
        assert_eq!(receiver.accepted(), 2);
    }
}

#[tokio::test]
async fn a_reused_connection_lost_within_an_answer_is_the_receivers_failure() {
    let receiver = ScriptedReceiver::start(|_, mut peer| async move {
        peer.request().await;
        peer.send(OK).await;
        peer.request().await;
        peer.send(b"HTTP/1.1 2").await;
    })
    .await;
    let client = client();
    post(&client, &receiver.url()).await;
    assert_failed(
        &post(&client, &receiver.url()).await,
        OutcomeClass::Connect,
        "closed before a complete answer",
    );
}

/// A receiver on threads of its own that closes idle connections or writes to them at a moment that the test chooses.
/// The test waits for it without running its event loop, so that only the kernel can know of it.
struct InterferingReceiver {
    address: SocketAddr,
    go: mpsc::Sender<()>,
    done: mpsc::Receiver<()>,
    misused: Arc<AtomicUsize>,
}

impl InterferingReceiver {
    /// Sends `extra` on an idle connection, or closes it if that is empty.
    fn start(extra: &'static [u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let ((go, going), (doing, done)) = (mpsc::channel(), mpsc::channel());
        let misused = Arc::new(AtomicUsize::new(0));
        let misuse = Arc::clone(&misused);
        std::thread::spawn(move || {
            let mut resting = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut buffer = [0; 4096];
                assert!(stream.read(&mut buffer).unwrap() > 0);
                stream.write_all(OK).unwrap();
                if going.recv().is_err() {
                    return;
                }
                match extra {
                    b"" => stream.shutdown(Shutdown::Write).unwrap(),
                    extra => stream.write_all(extra).unwrap(),
                }
                doing.send(()).unwrap();
                let misuse = Arc::clone(&misuse);
                resting.push(std::thread::spawn(move || {
                    if stream.read(&mut buffer).is_ok_and(|read| read > 0) {
                        misuse.fetch_add(1, Ordering::SeqCst);
                    }
                }));
            }
        });
        Self { address, go, done, misused }
    }

    fn meddle(&self) {
        self.go.send(()).unwrap();
        self.done.recv().unwrap();
    }
}

#[tokio::test]
async fn a_connection_closed_while_idle_is_replaced_before_anything_is_sent() {
    let meddler = InterferingReceiver::start(b"");
    let client = client();
    for _ in 0..100 {
        assert_answered(&post(&client, &format!("http://{}/", meddler.address)).await, 200);
        meddler.meddle();
    }
    assert_eq!(meddler.misused.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn unrequested_bytes_are_never_taken_for_the_next_answer() {
    let meddler = InterferingReceiver::start(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nforged");
    let client = client();
    for _ in 0..100 {
        let outcome = post(&client, &format!("http://{}/", meddler.address)).await;
        assert_answered(&outcome, 200);
        assert_eq!(&outcome.response_body[..], b"ok");
        meddler.meddle();
    }
    assert_eq!(meddler.misused.load(Ordering::SeqCst), 0);

    let eager: &[u8] =
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    let receiver = ScriptedReceiver::answering(eager).await;
    for n in 1..=10 {
        assert_eq!(&post(&client, &receiver.url()).await.response_body[..], b"ok");
        assert_eq!(receiver.accepted(), n);
    }
}

#[tokio::test]
async fn an_answer_framed_in_two_ways_is_read_but_its_connection_is_not_used_again() {
    for answer in [
        &b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"[..],
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 204 No Content\r\ncontent-length: 2\r\n\r\nok",
    ] {
        let receiver = ScriptedReceiver::answering(answer).await;
        let client = client();
        for n in 1..=3 {
            assert_eq!(post(&client, &receiver.url()).await.class, OutcomeClass::Http);
            assert_eq!(receiver.accepted(), n, "{}", String::from_utf8_lossy(answer));
        }
    }
}

#[tokio::test]
async fn an_idle_connection_is_not_used_once_the_policy_forbids_its_address() {
    let receiver = ScriptedReceiver::answering(OK).await;
    let client = client();
    post(&client, &receiver.url()).await;
    client.set_policy(AddressPolicy::default());
    assert_failed(&post(&client, &receiver.url()).await, OutcomeClass::AddressRefused, "address not allowed");
    assert_eq!((receiver.accepted(), client.idle()), (1, 0));
}

#[tokio::test]
async fn a_name_is_looked_up_at_every_connect_and_not_for_an_idle_connection() {
    let receiver = ScriptedReceiver::answering(OK).await;
    let script = ScriptedResolver::new(&[("hooks.example.com", &[&["127.0.0.1"], &["10.0.0.1"]])]);
    let options = ClientOptions { policy: loopback(), ..ClientOptions::default() };
    let client = HttpClient::new(options, Arc::clone(&script) as _).unwrap();
    let url = format!("http://hooks.example.com:{}/", receiver.address.port());
    for _ in 0..3 {
        assert_answered(&post(&client, &url).await, 200);
    }
    assert_eq!(script.lookups.load(Ordering::SeqCst), 1);
    let fresh =
        client.post(OutboundRequest { fresh: true, endpoint_id: ENDPOINT, ..request(&url) }).await.unwrap();
    assert_failed(&fresh, OutcomeClass::AddressRefused, "address not allowed");
    assert_eq!(receiver.accepted(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_belongs_to_its_own_request() {
    let receiver = ScriptedReceiver::start(|_, mut peer| async move {
        while let Some(request) = peer.request().await {
            let number = request.lines().find_map(|line| line.strip_prefix("x-number: ")).unwrap().to_owned();
            let closing = if number.ends_with('7') { "connection: close\r\n" } else { "" };
            let answer =
                format!("HTTP/1.1 200 OK\r\n{closing}content-length: {}\r\n\r\n{number}", number.len());
            peer.send(answer.as_bytes()).await;
        }
    })
    .await;
    let client = Arc::new(client());
    let senders: Vec<_> = (0..32)
        .map(|http_sender| {
            let (client, url) = (Arc::clone(&client), receiver.url());
            tokio::spawn(async move {
                for n in 0..100 {
                    let number = (http_sender * 1000 + n).to_string();
                    let headers = vec![("x-number".into(), number.clone())];
                    let endpoint_id = EndpointId::from_i64(http_sender % 4);
                    let outcome =
                        client.post(OutboundRequest { headers, endpoint_id, ..request(&url) }).await.unwrap();
                    assert_answered(&outcome, 200);
                    assert_eq!(outcome.response_body, number);
                }
            })
        })
        .collect();
    for http_sender in senders {
        http_sender.await.unwrap();
    }
    assert!(client.idle() <= 32);
}
