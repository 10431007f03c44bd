//! Names that lead to forbidden addresses. The canary listens on an allowed address, so that a wrong connection is
//! seen.

use crate::receiver::{
    OK, ScriptedReceiver, ScriptedResolver, assert_answered, assert_failed, client_with, loopback, post,
    post_within,
};
use posthaste::{
    domain::{address_policy::AddressPolicy, outcome::OutcomeClass},
    outbound::{ClientOptions, HttpClient, ResolveError, ResolveFuture, Resolver},
};
use std::sync::Arc;

fn only_127_0_0_1() -> ClientOptions {
    let allow = vec!["127.0.0.1/32".parse().unwrap()];
    ClientOptions { policy: AddressPolicy { allow, ..AddressPolicy::default() }, ..ClientOptions::default() }
}

#[tokio::test]
async fn one_forbidden_answer_among_allowed_ones_refuses_the_name() {
    let canary = ScriptedReceiver::answering(OK).await;
    let many: Vec<String> = (1..50).map(|n| format!("8.8.{n}.1")).chain(["10.0.0.1".to_owned()]).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let answers: [&[&str]; 9] = [
        &["127.0.0.1", "10.0.0.1"],
        &["10.0.0.1", "127.0.0.1"],
        &["127.0.0.1", "127.0.0.2"],
        &["127.0.0.1", "169.254.169.254"],
        &["127.0.0.1", "::1"],
        &["127.0.0.1", "::ffff:10.0.0.1"],
        &["127.0.0.1", "fd00:ec2::254"],
        &["127.0.0.1", "64:ff9b::7f00:1"],
        &many,
    ];
    for answer in answers {
        let client = client_with(only_127_0_0_1(), &[("hooks.example.com", &[answer])]);
        let outcome = post(&client, &format!("http://hooks.example.com:{}/", canary.address.port())).await;
        assert_failed(&outcome, OutcomeClass::AddressRefused, "");
        assert_eq!(
            (outcome.error.as_deref(), outcome.address),
            (Some("address not allowed"), None),
            "{answer:?}"
        );
    }
    assert_eq!(canary.accepted(), 0);
}

#[tokio::test]
async fn a_name_with_changing_addresses_is_connected_to_only_at_a_checked_one() {
    let good =
        ScriptedReceiver::answering(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
            .await;
    let flips: Vec<&[&str]> =
        (0..200).map(|n| if n % 2 == 0 { &["127.0.0.1"][..] } else { &["127.0.0.2"] }).collect();
    let client = client_with(only_127_0_0_1(), &[("flip.example.com", &flips)]);
    let url = format!("http://flip.example.com:{}/", good.address.port());
    for n in 0..200 {
        let outcome = post(&client, &url).await;
        if n % 2 == 0 {
            assert_answered(&outcome, 200);
            assert_eq!(outcome.address, Some(good.address));
        } else {
            assert_failed(&outcome, OutcomeClass::AddressRefused, "address not allowed");
        }
    }
    assert_eq!(good.accepted(), 100);
}

#[tokio::test]
async fn the_next_address_is_tried_when_one_does_not_answer() {
    let receiver = ScriptedReceiver::answering(OK).await;
    let options = || ClientOptions { policy: loopback(), ..ClientOptions::default() };
    let url = format!("http://hooks.example.com:{}/", receiver.address.port());
    let client =
        client_with(options(), &[("hooks.example.com", &[&["127.0.0.9", "127.0.0.8", "127.0.0.1"]])]);
    let outcome = post(&client, &url).await;
    assert_answered(&outcome, 200);
    assert_eq!(outcome.address, Some(receiver.address));
    assert!(outcome.timings.dns_us.is_some());
    let four: [&[&str]; 1] = [&["127.0.0.9", "127.0.0.8", "127.0.0.7", "127.0.0.1"]];
    let outcome = post(&client_with(options(), &[("hooks.example.com", &four)]), &url).await;
    assert_failed(&outcome, OutcomeClass::Connect, "connection refused");
}

#[tokio::test]
async fn single_labels_are_not_even_looked_up() {
    let script = ScriptedResolver::new(&[("backend", &[&["127.0.0.1"]]), ("a.localhost", &[&["127.0.0.1"]])]);
    let options = ClientOptions { policy: loopback(), ..ClientOptions::default() };
    let client = HttpClient::new(options, Arc::clone(&script) as _).unwrap();
    for url in ["http://backend/", "http://localhost/", "http://metadata/", "http://a.localhost/"] {
        assert_failed(&post(&client, url).await, OutcomeClass::AddressRefused, "address not allowed");
    }
    assert_eq!(script.lookups.load(std::sync::atomic::Ordering::SeqCst), 0);
}

#[tokio::test]
async fn dev_reaches_a_receiver_on_localhost() {
    let receiver = ScriptedReceiver::answering(OK).await;
    let policy = AddressPolicy { dev: true, ..AddressPolicy::default() };
    let client = client_with(
        ClientOptions { policy, ..ClientOptions::default() },
        &[("localhost", &[&["127.0.0.1"]])],
    );
    let outcome = post(&client, &format!("http://localhost:{}/", receiver.address.port())).await;
    assert_answered(&outcome, 200);
}

struct Failing(Option<ResolveError>);

impl Resolver for Failing {
    fn resolve<'a>(&'a self, _name: &'a str) -> ResolveFuture<'a> {
        match self.0 {
            Some(error) => Box::pin(std::future::ready(Err(error))),
            None => Box::pin(std::future::pending()),
        }
    }
}

#[tokio::test]
async fn a_missing_name_counts_against_the_receiver_and_a_dead_resolver_does_not() {
    let url = "http://hooks.example.com/";
    let client = |error| HttpClient::new(ClientOptions::default(), Arc::new(Failing(error))).unwrap();
    let outcome = post(&client(Some(ResolveError::NotFound)), url).await;
    assert_failed(&outcome, OutcomeClass::Dns, "the host name was not found");
    let outcome = post(&client(Some(ResolveError::Broken)), url).await;
    assert_failed(&outcome, OutcomeClass::Dns, "its name servers do not answer");
    let outcome = post(&client(Some(ResolveError::Unavailable)), url).await;
    assert_failed(&outcome, OutcomeClass::Local, "resolver does not answer");
    let outcome = post_within(&client(None), url, 200).await;
    assert_failed(&outcome, OutcomeClass::Timeout, "timed out after 200 ms while looking up the host name");
    let empty = client_with(ClientOptions::default(), &[("hooks.example.com", &[&[]])]);
    assert_failed(&post(&empty, url).await, OutcomeClass::Dns, "the host name was not found");
}
