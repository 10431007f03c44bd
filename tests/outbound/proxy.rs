//! Requests through a proxy, and never past it. The receiver listens on 127.0.0.1, its name leads to 127.0.0.2, and there a
//! canary counts connections past the proxy.

use crate::{
    certificates::{acceptor, authority, identity},
    proxy_server::TestProxy,
    receiver::{
        OK, ScriptedConnection, ScriptedReceiver, ScriptedResolver, assert_answered, assert_failed, loopback,
        post, post_within, request,
    },
};
use posthaste::{
    domain::{address_policy::AddressPolicy, outcome::OutcomeClass},
    outbound::{ClientOptions, HttpClient, HttpSender, OutboundRequest},
};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use tokio::net::TcpListener;

/// Behind the proxy.
const NAME: &str = "hooks.example.com";

struct Canary(Arc<AtomicUsize>);

impl Canary {
    /// Listens on the address that the name leads to.
    async fn beside(receiver: &ScriptedReceiver) -> Self {
        let listener = TcpListener::bind(("127.0.0.2", receiver.address.port())).await.unwrap();
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        tokio::spawn(async move {
            while listener.accept().await.is_ok() {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self(count)
    }

    #[track_caller]
    fn was_left_alone(&self) {
        assert_eq!(self.0.load(Ordering::SeqCst), 0, "something was dialled past the proxy");
    }
}

fn names() -> Arc<ScriptedResolver> {
    ScriptedResolver::new(&[
        (NAME, &[&["127.0.0.2"]]),
        ("two.example.com", &[&["127.0.0.3", "127.0.0.2"]]),
        ("private.example.com", &[&["10.0.0.1"]]),
        ("proxy.example", &[&["127.0.0.1"], &["192.0.2.1"]]),
    ])
}

fn options(proxy: &str) -> ClientOptions {
    let proxy = posthaste::domain::proxy::Proxy::parse(proxy);
    ClientOptions { policy: loopback(), proxy: Some(proxy.expect("a proxy")), ..ClientOptions::default() }
}

fn client(proxy: &str) -> HttpClient {
    HttpClient::new(options(proxy), names()).unwrap()
}

fn url(receiver: &ScriptedReceiver) -> String {
    format!("http://{NAME}:{}/hook", receiver.address.port())
}

fn at(scheme: &str, proxy: &ScriptedReceiver) -> String {
    format!("{scheme}://{}", proxy.address)
}

#[tokio::test]
async fn every_kind_of_proxy_gets_the_checked_address_and_its_tunnel_is_kept() {
    let receiver = ScriptedReceiver::answering(OK).await;
    let (canary, port) = (Canary::beside(&receiver).await, receiver.address.port());
    let ours = authority("ours");
    let acceptor = acceptor(&identity("proxy.example", Some(&ours), |_| {}), None);
    let http = TestProxy::http(receiver.address, false).await;
    let http_with_credentials = TestProxy::http(receiver.address, true).await;
    let https = TestProxy::https(receiver.address, acceptor).await;
    let socks = TestProxy::socks5(receiver.address, false).await;
    let socks_with_credentials = TestProxy::socks5(receiver.address, true).await;
    let credentials = "posthaste:p%40ss%3Aword";
    for (proxy, setting, requested) in [
        (&http, at("http", &http.receiver), format!("CONNECT 127.0.0.2:{port} HTTP/1.1")),
        (
            &http_with_credentials,
            format!("http://{credentials}@{}", http_with_credentials.receiver.address),
            format!("CONNECT 127.0.0.2:{port} HTTP/1.1"),
        ),
        (
            &https,
            format!("https://{credentials}@proxy.example:{}", https.receiver.address.port()),
            format!("CONNECT 127.0.0.2:{port} HTTP/1.1"),
        ),
        (&socks, at("socks5", &socks.receiver), format!("127.0.0.2:{port}")),
        (
            &socks_with_credentials,
            format!("socks5://{credentials}@{}", socks_with_credentials.receiver.address),
            format!("127.0.0.2:{port}"),
        ),
    ] {
        let options = ClientOptions { extra_ca_pem: Some(ours.pem().into_bytes()), ..options(&setting) };
        let client = HttpClient::new(options, names()).unwrap();
        for n in 0..3 {
            let outcome = post(&client, &url(&receiver)).await;
            assert_answered(&outcome, 200);
            assert_eq!(outcome.address, Some(([127, 0, 0, 2], port).into()), "{setting}");
            assert_eq!(outcome.timings.connect_us.is_some(), n == 0, "{setting}");
        }
        assert_eq!(proxy.requests(), [requested], "{setting}");
    }
    canary.was_left_alone();
}

#[tokio::test]
async fn tls_goes_through_the_tunnel_and_is_verified_against_the_name() {
    let ours = authority("ours");
    let fitting = acceptor(&identity(NAME, Some(&ours), |_| {}), None);
    let receiver = ScriptedReceiver::start(move |_, peer| {
        let acceptor = fitting.clone();
        async move {
            let Ok(stream) = acceptor.accept(peer.stream).await else { return };
            let mut peer = ScriptedConnection::new(stream);
            while peer.request().await.is_some() {
                peer.send(OK).await;
            }
        }
    })
    .await;
    let canary = Canary::beside(&receiver).await;
    let proxy_acceptor = acceptor(&identity("127.0.0.1", Some(&ours), |_| {}), None);
    let (http, https, socks) = (
        TestProxy::http(receiver.address, false).await,
        TestProxy::https(receiver.address, proxy_acceptor).await,
        TestProxy::socks5(receiver.address, false).await,
    );
    let port = receiver.address.port();
    for setting in [
        at("http", &http.receiver),
        format!("https://posthaste:p%40ss%3Aword@{}", https.receiver.address),
        at("socks5", &socks.receiver),
    ] {
        let options = ClientOptions { extra_ca_pem: Some(ours.pem().into_bytes()), ..options(&setting) };
        let client = HttpClient::new(options, names()).unwrap();
        for n in 0..2 {
            let outcome = post(&client, &format!("https://{NAME}:{port}/")).await;
            assert_answered(&outcome, 200);
            assert_eq!(outcome.timings.tls_us.is_some(), n == 0);
        }
        let other = post(&client, &format!("https://two.example.com:{port}/")).await;
        assert_failed(&other, OutcomeClass::Tls, "the certificate is for another host name");
    }
    canary.was_left_alone();
}

/// Answers a CONNECT with these bytes and hangs.
async fn saying(bytes: &'static [u8]) -> ScriptedReceiver {
    ScriptedReceiver::start(move |_, mut peer| async move {
        if peer.request().await.is_some() {
            peer.send(bytes).await;
            peer.hang().await;
        }
    })
    .await
}

/// Sends bytes first, as a server of another protocol would.
async fn greeting(bytes: &'static [u8]) -> ScriptedReceiver {
    ScriptedReceiver::start(move |_, mut peer| async move {
        peer.send(bytes).await;
        peer.hang().await;
    })
    .await
}

#[tokio::test]
async fn a_failing_proxy_is_a_local_failure_and_no_connection_bypasses_it() {
    let receiver = ScriptedReceiver::answering(OK).await;
    let canary = Canary::beside(&receiver).await;
    let endless: &'static [u8] = vec![b'a'; 64 * 1024].leak();
    let down = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let http = TestProxy::http(receiver.address, true).await;
    let socks = TestProxy::socks5(receiver.address, true).await;
    let open_socks = TestProxy::socks5(receiver.address, false).await;
    let stranger = acceptor(&identity("127.0.0.1", None, |_| {}), None);
    let https = TestProxy::https(receiver.address, stranger).await;
    let closing = ScriptedReceiver::start(|_, mut peer| async move { drop(peer.request().await) }).await;
    let wrong =
        |scheme: &str, proxy: &TestProxy| format!("{scheme}://posthaste:wrong@{}", proxy.receiver.address);
    for (setting, words) in [
        (format!("http://{down}"), "cannot be reached: connection refused"),
        (format!("https://{down}"), "cannot be reached: connection refused"),
        (format!("socks5://{down}"), "cannot be reached: connection refused"),
        ("http://unknown.example:1".to_owned(), "cannot be looked up"),
        (wrong("http", &http), "does not accept our credentials"),
        (at("http", &http.receiver), "does not accept our credentials"),
        (wrong("socks5", &socks), "does not accept our credentials"),
        (at("socks5", &socks.receiver), "asks for credentials, and none are set"),
        (wrong("socks5", &open_socks), "does not take a user and password"),
        (at("https", &https.receiver), "fails in TLS"),
        (at("https", &greeting(b"HTTP/1.1 400 No\r\n\r\n").await), "fails in TLS"),
        (at("socks5", &greeting(b"HTTP/1.1 400 No\r\n\r\n").await), "does not speak SOCKS5"),
        (at("socks5", &greeting(b"\x05\x00\x05\x01\x00\x01\x00\x00\x00\x00\x00\x00").await), "SOCKS reply 1"),
        (at("http", &saying(b"HTTP/1.1 500 Oops\r\n\r\n").await), "answered 500"),
        (
            at("http", &saying(b"HTTP/1.1 302 No\r\nlocation: http://127.0.0.2/\r\n\r\n").await),
            "answered 302",
        ),
        (at("http", &saying(b"SSH-2.0-OpenSSH_9.9\r\n\r\n").await), "does not speak HTTP"),
        (at("http", &saying(endless).await), "without end"),
        (at("http", &closing), "closed the connection instead of answering"),
    ] {
        let outcome = post(&client(&setting), &url(&receiver)).await;
        assert_failed(&outcome, OutcomeClass::Local, words);
        assert!(!format!("{outcome:?}").contains("wrong"), "{outcome:?}");
    }
    assert_eq!(receiver.accepted(), 0);
    canary.was_left_alone();
}

#[tokio::test]
async fn bytes_sent_behind_a_tunnels_opening_are_never_taken_for_an_answer() {
    let receiver = ScriptedReceiver::answering(OK).await;
    let forged = b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    let outcome = post(&client(&at("http", &saying(forged).await)), &url(&receiver)).await;
    assert_failed(&outcome, OutcomeClass::Local, "sent more than its answer");
    let forged =
        b"\x05\x00\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    let outcome = post(&client(&at("socks5", &greeting(forged).await)), &url(&receiver)).await;
    assert_failed(&outcome, OutcomeClass::Local, "sent more than its answer");
}

#[tokio::test]
async fn a_proxys_answer_about_the_receiver_counts_against_the_receiver() {
    let receiver = ScriptedReceiver::answering(OK).await;
    let canary = Canary::beside(&receiver).await;
    for (answer, class) in [
        (&b"HTTP/1.1 502 Bad Gateway\r\n\r\n"[..], OutcomeClass::Connect),
        (b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 3\r\n\r\nno.", OutcomeClass::Connect),
        (b"HTTP/1.1 504 Gateway Timeout\r\n\r\n", OutcomeClass::Connect),
        (b"HTTP/1.1 403 Forbidden\r\n\r\n<html>", OutcomeClass::AddressRefused),
        (
            b"HTTP/1.1 407 Request rejected by proxy\r\nX-Smokescreen-Error: denied\r\n\r\n",
            OutcomeClass::AddressRefused,
        ),
    ] {
        let outcome = post(&client(&at("http", &saying(answer).await)), &url(&receiver)).await;
        assert_failed(&outcome, class, "the proxy");
    }
    for (reply, class) in [
        (2, OutcomeClass::AddressRefused),
        (3, OutcomeClass::Connect),
        (4, OutcomeClass::Connect),
        (5, OutcomeClass::Connect),
    ] {
        let proxy = TestProxy::socks5_refusing(reply).await;
        let outcome = post(&client(&at("socks5", &proxy.receiver)), &url(&receiver)).await;
        assert_failed(&outcome, class, "proxy");
        assert_eq!(outcome.address.map(|address| address.port()), Some(receiver.address.port()));
    }
    canary.was_left_alone();
}

#[tokio::test]
async fn a_hanging_proxy_is_a_local_failure_until_it_knows_the_destination_and_the_deadline_holds() {
    let receiver = ScriptedReceiver::answering(OK).await;
    let hanging = ScriptedReceiver::start(|_, peer| peer.hang()).await;
    for scheme in ["socks5", "https"] {
        let outcome = post_within(&client(&at(scheme, &hanging)), &url(&receiver), 200).await;
        assert_failed(&outcome, OutcomeClass::Local, "while reaching the proxy");
    }
    for proxy in [
        at("http", &hanging),
        at("socks5", &greeting(b"\x05\x00").await),
        at("http", &saying(b"HTTP/1.1 2").await),
    ] {
        let outcome = post_within(&client(&proxy), &url(&receiver), 200).await;
        assert_failed(&outcome, OutcomeClass::Timeout, "while connecting");
    }
}

#[tokio::test]
async fn another_address_is_tried_through_the_proxy_too() {
    let receiver = ScriptedReceiver::answering(OK).await;
    let (canary, to) = (Canary::beside(&receiver).await, receiver.address);
    let proxy = ScriptedReceiver::start(move |n, mut peer| async move {
        peer.request().await.unwrap();
        if n == 0 {
            peer.send(b"HTTP/1.1 502 No\r\n\r\n").await;
            return;
        }
        peer.send(b"HTTP/1.1 200 OK\r\n\r\n").await;
        let mut onward = tokio::net::TcpStream::connect(to).await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut peer.stream, &mut onward).await;
    })
    .await;
    let outcome = post(&client(&at("http", &proxy)), &format!("http://two.example.com:{}/", to.port())).await;
    assert_answered(&outcome, 200);
    assert_eq!(outcome.address, Some(([127, 0, 0, 2], to.port()).into()));
    canary.was_left_alone();
}

#[tokio::test]
async fn the_address_policy_is_checked_before_the_proxy_is_contacted() {
    let receiver = ScriptedReceiver::answering(OK).await;
    let proxy = TestProxy::http(receiver.address, false).await;
    for proxy_resolves in [false, true] {
        let options = ClientOptions {
            policy: AddressPolicy::default(),
            proxy_resolves,
            ..options(&at("http", &proxy.receiver))
        };
        let client = HttpClient::new(options, names()).unwrap();
        for url in [
            "http://127.0.0.1:1/",
            "http://10.0.0.1/",
            "http://[::1]/",
            "http://localhost/",
            "http://intranet/",
        ] {
            assert_failed(&post(&client, url).await, OutcomeClass::AddressRefused, "address not allowed");
        }
        if !proxy_resolves {
            let private = post(&client, "http://private.example.com/").await;
            assert_failed(&private, OutcomeClass::AddressRefused, "address not allowed");
        }
    }
    assert_eq!(proxy.receiver.accepted(), 0);
}

#[tokio::test]
async fn a_proxy_that_resolves_is_given_names_and_nothing_is_looked_up_here() {
    let receiver = ScriptedReceiver::answering(OK).await;
    let port = receiver.address.port();
    let (http, socks) =
        (TestProxy::http(receiver.address, false).await, TestProxy::socks5(receiver.address, false).await);
    for (proxy, scheme, requested) in [
        (&http, "http", format!("CONNECT unheard-of.example:{port} HTTP/1.1")),
        (&socks, "socks5", format!("unheard-of.example:{port}")),
    ] {
        let names = names();
        let options = ClientOptions { proxy_resolves: true, ..options(&at(scheme, &proxy.receiver)) };
        let client = HttpClient::new(options, names.clone()).unwrap();
        for _ in 0..2 {
            let outcome = post(&client, &format!("http://unheard-of.example:{port}/")).await;
            assert_answered(&outcome, 200);
            assert_eq!(outcome.address, None);
        }
        assert_eq!(proxy.requests(), [requested]);
        assert_eq!(names.lookups.load(Ordering::SeqCst), 0);
    }
}

#[tokio::test]
async fn an_ipv6_address_is_sent_in_each_proxys_format() {
    let receiver = ScriptedReceiver::answering(OK).await;
    let port = receiver.address.port();
    let (http, socks) =
        (TestProxy::http(receiver.address, false).await, TestProxy::socks5(receiver.address, false).await);
    for (proxy, scheme, requested) in [
        (&http, "http", format!("CONNECT [::1]:{port} HTTP/1.1")),
        (&socks, "socks5", format!("[::1]:{port}")),
    ] {
        let client = client(&at(scheme, &proxy.receiver));
        assert_answered(&post(&client, &format!("http://[::1]:{port}/")).await, 200);
        assert_eq!(proxy.requests(), [requested]);
    }
}

#[tokio::test]
async fn the_proxys_own_name_is_not_looked_up_for_every_connection() {
    let receiver = ScriptedReceiver::answering(OK).await;
    let proxy = TestProxy::http(receiver.address, false).await;
    let names = names();
    let setting = format!("http://proxy.example:{}", proxy.receiver.address.port());
    let client = HttpClient::new(options(&setting), names.clone()).unwrap();
    for _ in 0..3 {
        let fresh = OutboundRequest { fresh: true, ..request(&receiver.url()) };
        assert_answered(&client.post(fresh).await.unwrap(), 200);
    }
    assert_eq!((proxy.receiver.accepted(), names.lookups.load(Ordering::SeqCst)), (3, 1));
}
