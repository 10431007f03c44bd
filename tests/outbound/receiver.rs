//! A receiver that executes a test's script, byte for byte, and counts connections.

use bytes::Bytes;
use posthaste::{
    domain::{
        address_policy::AddressPolicy,
        id::EndpointId,
        outcome::{Outcome, OutcomeClass},
        target_url::TargetUrl,
    },
    outbound::{
        ClientOptions, HttpClient, HttpSender, OutboundRequest, ResolveError, ResolveFuture, Resolver,
    },
};
use std::{
    borrow::Cow,
    collections::HashMap,
    future::Future,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

pub(crate) const ENDPOINT: EndpointId = EndpointId::from_i64(7);
pub(crate) const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

pub(crate) struct ScriptedReceiver {
    pub(crate) address: SocketAddr,
    accepted: Arc<AtomicUsize>,
}

impl ScriptedReceiver {
    /// Runs `script` with the number (from 0) and the stream of every connection.
    pub(crate) async fn start<F, Fut>(script: F) -> Self
    where
        F: Fn(usize, ScriptedConnection<TcpStream>) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&accepted);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                tokio::spawn(script(count.fetch_add(1, Ordering::SeqCst), ScriptedConnection::new(stream)));
            }
        });
        Self { address, accepted }
    }

    /// Answers every request on every connection with the same bytes.
    pub(crate) async fn answering(answer: &'static [u8]) -> Self {
        Self::start(move |_, mut peer| async move {
            while peer.request().await.is_some() {
                peer.send(answer).await;
            }
        })
        .await
    }

    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }
}

/// The receiver's end of a connection.
pub(crate) struct ScriptedConnection<S> {
    pub(crate) stream: S,
    unread: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> ScriptedConnection<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, unread: Vec::new() }
    }

    /// Reads one whole request; `None` when the sender has closed.
    pub(crate) async fn request(&mut self) -> Option<String> {
        loop {
            let text = String::from_utf8_lossy(&self.unread).into_owned();
            if let Some(head) = text.find("\r\n\r\n") {
                let length = text[..head].lines().find_map(|line| line.strip_prefix("content-length: "));
                let whole = head + 4 + length.map_or(0, |length| length.parse::<usize>().unwrap());
                if self.unread.len() >= whole {
                    self.unread.drain(..whole);
                    return Some(text[..whole].to_owned());
                }
            }
            if self.stream.read_buf(&mut self.unread).await.ok()? == 0 {
                return None;
            }
        }
    }

    /// The received bytes that are no whole request.
    pub(crate) fn unread(&self) -> &[u8] {
        &self.unread
    }

    /// Sends bytes; false once the other side is gone.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok()
    }

    /// Says nothing until the sender hangs up.
    pub(crate) async fn hang(mut self) {
        let mut sink = [0; 1024];
        while self.stream.read(&mut sink).await.is_ok_and(|read| read > 0) {}
    }
}

/// Answers from a script: each name has a list of answers, given in turn, the last one for ever.
#[derive(Default)]
pub(crate) struct ScriptedResolver {
    answers: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    pub(crate) lookups: AtomicUsize,
}

impl ScriptedResolver {
    pub(crate) fn new(names: &[(&str, &[&[&str]])]) -> Arc<Self> {
        let parse = |answer: &&[&str]| answer.iter().map(|ip| ip.parse().unwrap()).collect();
        let answers = names
            .iter()
            .map(|(name, answers)| ((*name).to_owned(), answers.iter().map(parse).collect()))
            .collect();
        Arc::new(Self { answers: Mutex::new(answers), lookups: AtomicUsize::new(0) })
    }
}

impl Resolver for ScriptedResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> ResolveFuture<'a> {
        self.lookups.fetch_add(1, Ordering::SeqCst);
        let mut names = self.answers.lock().unwrap();
        let answer = names.get_mut(name).map(|answers| match answers.len() {
            1 => answers[0].clone(),
            _ => answers.remove(0),
        });
        Box::pin(async move { answer.ok_or(ResolveError::NotFound) })
    }
}

pub(crate) fn loopback() -> AddressPolicy {
    let allow = ["127.0.0.0/8", "::1/128"].map(|net| net.parse().unwrap()).to_vec();
    AddressPolicy { allow, ..AddressPolicy::default() }
}

pub(crate) fn client() -> HttpClient {
    client_with(ClientOptions { policy: loopback(), ..ClientOptions::default() }, &[])
}

pub(crate) fn client_with(options: ClientOptions, names: &[(&str, &[&[&str]])]) -> HttpClient {
    HttpClient::new(options, ScriptedResolver::new(names)).unwrap()
}

pub(crate) fn request(url: &str) -> OutboundRequest {
    OutboundRequest {
        endpoint_id: ENDPOINT,
        target: TargetUrl::from_stored(url).unwrap(),
        headers: vec![(Cow::Borrowed("content-type"), "application/json".to_owned())],
        extra_headers: Arc::new([]),
        tls: None,
        body: Bytes::from_static(b"{\"a\":1}"),
        timeout: Duration::from_secs(10),
        https_only: false,
        fresh: false,
    }
}

pub(crate) async fn post(client: &HttpClient, url: &str) -> Outcome {
    client.post(request(url)).await.unwrap()
}

pub(crate) async fn post_within(client: &HttpClient, url: &str, timeout_ms: u64) -> Outcome {
    client.post(OutboundRequest { timeout: Duration::from_millis(timeout_ms), ..request(url) }).await.unwrap()
}

#[track_caller]
pub(crate) fn assert_answered(outcome: &Outcome, status: u16) {
    assert_eq!((outcome.class, outcome.status), (OutcomeClass::Http, Some(status)), "{outcome:?}");
}

#[track_caller]
pub(crate) fn assert_failed(outcome: &Outcome, class: OutcomeClass, words: &str) {
    assert_eq!((outcome.class, outcome.status), (class, None), "{outcome:?}");
    assert!(outcome.error.as_deref().unwrap_or_default().contains(words), "{outcome:?}");
}
