//! Receivers that ask for a client certificate, and receivers whose authority is only configured for their endpoint.

use crate::{
    certificates::{Authority, acceptor, authority, identity},
    receiver::{
        OK, ScriptedConnection, ScriptedReceiver, assert_answered, assert_failed, client_with, loopback,
        request,
    },
};
use posthaste::{
    domain::{
        outcome::{Outcome, OutcomeClass},
        tls::{EndpointTls, TlsDocument},
    },
    outbound::{ClientOptions, HttpClient, HttpSender, OutboundRequest},
};
use rcgen::{CertificateParams, date_time_ymd};
use std::sync::{Arc, Mutex};
use tokio::io::AsyncWriteExt;

const NAME: &str = "hooks.example.com";

/// Starts a receiver with a certificate of `servers` that asks for one of `clients`, and records the length of each
/// client's certificate.
async fn receiver(
    servers: &Authority,
    clients: Option<&Authority>,
) -> (ScriptedReceiver, Arc<Mutex<Vec<usize>>>) {
    let acceptor = acceptor(&identity(NAME, Some(servers), |_| {}), clients);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let receiver = ScriptedReceiver::start(move |_, peer| {
        let (acceptor, noted) = (acceptor.clone(), noted.clone());
        async move {
            let refused = acceptor.accept(peer.stream).into_fallible();
            let stream = match refused.await {
                Ok(stream) => stream,
                // Closes gracefully: a reset could overtake the TLS alert.
                Err((_, mut socket)) => {
                    let _ = socket.shutdown().await;
                    return ScriptedConnection::new(socket).hang().await;
                }
            };
            let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
            noted.lock().unwrap().push(certificate.map_or(0, |certificate| certificate.len()));
            let mut peer = ScriptedConnection::new(stream);
            while peer.request().await.is_some() {
                peer.send(OK).await;
            }
        }
    })
    .await;
    (receiver, seen)
}

fn client(trusted: Option<&Authority>) -> HttpClient {
    let extra_ca_pem = trusted.map(|authority| authority.pem().into_bytes());
    let options = ClientOptions { policy: loopback(), extra_ca_pem, ..ClientOptions::default() };
    client_with(options, &[(NAME, &[&["127.0.0.1"]])])
}

fn client_identity(signing_keys: Option<&Authority>, adjust: impl Fn(&mut CertificateParams)) -> TlsDocument {
    let (certificate, key) = identity("posthaste", signing_keys, adjust);
    TlsDocument {
        client_certificate: Some(certificate.pem()),
        client_key: Some(key.serialize_pem()),
        ca: None,
    }
}

fn ready(document: &TlsDocument) -> Arc<EndpointTls> {
    Arc::new(EndpointTls::read(document).unwrap())
}

async fn post(
    client: &HttpClient,
    receiver: &ScriptedReceiver,
    tls: impl Into<Option<Arc<EndpointTls>>>,
) -> Outcome {
    let url = format!("https://{NAME}:{}/", receiver.address.port());
    client.post(OutboundRequest { tls: tls.into(), ..request(&url) }).await.unwrap()
}

#[tokio::test]
async fn only_the_right_client_certificate_gets_in() {
    let (servers, clients, others) = (authority("servers"), authority("clients"), authority("others"));
    let (receiver, seen) = receiver(&servers, Some(&clients)).await;
    let client = client(Some(&servers));
    let right = ready(&client_identity(Some(&clients), |_| {}));
    for _ in 0..3 {
        assert_answered(&post(&client, &receiver, right.clone()).await, 200);
    }
    assert!(matches!(seen.lock().unwrap()[..], [length] if length > 0), "one connection, with a certificate");
    let expired = ready(&client_identity(Some(&clients), |params| {
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 1, 1);
    }));
    for (tls, words) in [
        (None, "client certificate"),
        (Some(ready(&client_identity(Some(&others), |_| {}))), "does not accept the client certificate"),
        (Some(ready(&client_identity(None, |_| {}))), "client certificate"),
        (Some(expired), "does not accept the client certificate"),
    ] {
        assert_failed(&post(&client, &receiver, tls).await, OutcomeClass::Tls, words);
    }
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_private_authority_takes_the_place_of_all_others_for_its_endpoint_alone() {
    let (private, known) = (authority("private"), authority("known"));
    let ((behind_private, _), (behind_known, _)) =
        (receiver(&private, None).await, receiver(&known, None).await);
    let client = client(Some(&known));
    let pinned = ready(&TlsDocument { ca: Some(private.pem()), ..TlsDocument::default() });
    assert_answered(&post(&client, &behind_private, pinned.clone()).await, 200);
    let untrusted = "not signed by a trusted authority";
    assert_failed(&post(&client, &behind_known, pinned).await, OutcomeClass::Tls, untrusted);
    assert_answered(&post(&client, &behind_known, None).await, 200);
    assert_failed(&post(&client, &behind_private, None).await, OutcomeClass::Tls, untrusted);
    let both = TlsDocument { ca: Some(private.pem() + &known.pem()), ..TlsDocument::default() };
    assert_answered(&post(&client, &behind_known, ready(&both)).await, 200);
}

#[tokio::test]
async fn a_connection_is_never_used_again_under_another_certificate() {
    let (servers, clients) = (authority("servers"), authority("clients"));
    let (receiver, seen) = receiver(&servers, Some(&clients)).await;
    let client = client(Some(&servers));
    let (first, second) = (client_identity(Some(&clients), |_| {}), client_identity(Some(&clients), |_| {}));
    assert_answered(&post(&client, &receiver, ready(&first)).await, 200);
    assert_answered(&post(&client, &receiver, ready(&first)).await, 200);
    assert_eq!(seen.lock().unwrap().len(), 1, "the same document, read again, is the same");
    assert_answered(&post(&client, &receiver, ready(&second)).await, 200);
    assert_eq!((seen.lock().unwrap().len(), client.idle()), (2, 1), "the old connection is closed");
    assert_failed(&post(&client, &receiver, None).await, OutcomeClass::Tls, "client certificate");
    assert_eq!(client.idle(), 0);
}

#[tokio::test]
async fn a_health_check_shows_the_same_certificate() {
    let (servers, clients) = (authority("servers"), authority("clients"));
    let (receiver, seen) = receiver(&servers, Some(&clients)).await;
    let url = format!("https://{NAME}:{}/health", receiver.address.port());
    let tls = ready(&client_identity(Some(&clients), |_| {}));
    let outcome =
        client(Some(&servers)).get(OutboundRequest { tls: Some(tls), ..request(&url) }).await.unwrap();
    assert_answered(&outcome, 200);
    assert!(matches!(seen.lock().unwrap()[..], [length] if length > 0));
}
