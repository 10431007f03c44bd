//! Certificates generated for the tests: only the one that fits is accepted.

use crate::{
    certificates::{Authority, acceptor, authority, identity},
    receiver::{
        OK, ScriptedConnection, ScriptedReceiver, assert_answered, assert_failed, client_with, loopback,
        post, post_within,
    },
};
use posthaste::{
    domain::outcome::OutcomeClass,
    outbound::{ClientOptions, HttpClient, TlsError},
};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};

/// A receiver that speaks TLS with a certificate for `name`, signed by `authority` or by itself.
async fn receiver(
    name: &str,
    authority: Option<&Authority>,
    adjust: impl Fn(&mut CertificateParams),
) -> ScriptedReceiver {
    let acceptor = acceptor(&identity(name, authority, adjust), None);
    ScriptedReceiver::start(move |_, peer| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(stream) = acceptor.accept(peer.stream).await else { return };
            assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
            assert_ne!(stream.get_ref().1.server_name(), Some("127.0.0.1"));
            let mut peer = ScriptedConnection::new(stream);
            while peer.request().await.is_some() {
                peer.send(OK).await;
            }
        }
    })
    .await
}

fn client(authority: Option<&Authority>) -> HttpClient {
    let extra_ca_pem = authority.map(|authority| authority.pem().into_bytes());
    let options = ClientOptions { policy: loopback(), extra_ca_pem, ..ClientOptions::default() };
    client_with(options, &[("hooks.example.com", &[&["127.0.0.1"]])])
}

fn url(receiver: &ScriptedReceiver) -> String {
    format!("https://hooks.example.com:{}/", receiver.address.port())
}

#[tokio::test]
async fn a_certificate_that_fits_is_accepted_and_its_connection_kept() {
    let authority = authority("ours");
    let receiver = receiver("hooks.example.com", Some(&authority), |_| {}).await;
    let client = client(Some(&authority));
    for n in 0..5 {
        let outcome = post(&client, &url(&receiver)).await;
        assert_answered(&outcome, 200);
        assert_eq!(outcome.timings.tls_us.is_some(), n == 0);
    }
    assert_eq!(receiver.accepted(), 1);
}

#[tokio::test]
async fn a_certificate_for_an_address_is_accepted_for_that_address() {
    let authority = authority("ours");
    let receiver = receiver("127.0.0.1", Some(&authority), |_| {}).await;
    let outcome = post(&client(Some(&authority)), &format!("https://{}/", receiver.address)).await;
    assert_answered(&outcome, 200);
    let outcome = post(&client(Some(&authority)), &url(&receiver)).await;
    assert_failed(&outcome, OutcomeClass::Tls, "the certificate is for another host name");
}

#[tokio::test]
async fn invalid_certificates_are_refused_with_a_reason() {
    let (ours, theirs) = (authority("ours"), authority("theirs"));
    let client = client(Some(&ours));
    let good = "hooks.example.com";
    for (receiver, words) in [
        (
            receiver("other.example.com", Some(&ours), |_| {}).await,
            "the certificate is for another host name",
        ),
        (receiver("*.com", Some(&ours), |_| {}).await, "the certificate is for another host name"),
        (receiver(good, Some(&theirs), |_| {}).await, "not signed by a trusted authority"),
        (receiver(good, None, |_| {}).await, "the certificate is not"),
        (
            receiver(good, Some(&ours), |params| {
                params.not_before = date_time_ymd(2001, 1, 1);
                params.not_after = date_time_ymd(2002, 1, 1);
            })
            .await,
            "the certificate is expired",
        ),
        (
            receiver(good, Some(&ours), |params| params.not_before = date_time_ymd(2999, 1, 1)).await,
            "the certificate is not valid yet",
        ),
    ] {
        assert_failed(&post(&client, &url(&receiver)).await, OutcomeClass::Tls, words);
    }
}

#[tokio::test]
async fn without_the_operators_authority_its_certificates_are_refused() {
    let receiver = receiver("hooks.example.com", Some(&authority("ours")), |_| {}).await;
    assert_failed(
        &post(&client(None), &url(&receiver)).await,
        OutcomeClass::Tls,
        "not signed by a trusted authority",
    );
}

#[tokio::test]
async fn a_server_without_valid_tls_fails_cleanly() {
    let plain = ScriptedReceiver::start(|_, mut peer| async move {
        peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        peer.hang().await;
    })
    .await;
    assert_failed(&post(&client(None), &url(&plain)).await, OutcomeClass::Tls, "does not speak TLS");
    let too_old = ScriptedReceiver::start(|_, mut peer| async move {
        peer.send(b"\x15\x03\x01\x00\x02\x02\x46").await;
        peer.hang().await;
    })
    .await;
    assert_failed(
        &post(&client(None), &url(&too_old)).await,
        OutcomeClass::Tls,
        "broke off the TLS handshake",
    );
    let closing = ScriptedReceiver::start(|_, peer| async move { drop(peer) }).await;
    assert_failed(&post(&client(None), &url(&closing)).await, OutcomeClass::Tls, "during the TLS handshake");
    let stalling = ScriptedReceiver::start(|_, peer| peer.hang()).await;
    let outcome = post_within(&client(None), &url(&stalling), 300).await;
    assert_failed(&outcome, OutcomeClass::Timeout, "while setting up TLS");
}

#[tokio::test]
async fn extra_certificates_must_be_certificates() {
    let build = |pem: &str| {
        let options =
            ClientOptions { extra_ca_pem: Some(pem.as_bytes().to_vec()), ..ClientOptions::default() };
        HttpClient::new(options, crate::receiver::ScriptedResolver::new(&[])).map(|_| ())
    };
    assert!(matches!(build(""), Err(TlsError::Empty)));
    assert!(matches!(
        build("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----"),
        Err(TlsError::Pem(_))
    ));
    assert!(matches!(build(&KeyPair::generate().unwrap().serialize_pem()), Err(TlsError::Empty)));
}
