//! Behaviour of the example servers: good, forged, old, repeated and unusable deliveries, and errors of their own.

use crate::{
    case::{CONTRACTS, Case, Payload, secret},
    example::{ExampleServer, Language, spawn},
    harness::{NodeFolder, wait_for},
};
use posthaste::domain::time::Timestamp;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

const WAIT_MAX: Duration = Duration::from_secs(30);

/// The servers have the real clock, so what is sent to them is signed by it.
#[expect(clippy::disallowed_methods, reason = "the servers under test have the real clock")]
fn seconds_ago(seconds: i64) -> Timestamp {
    Timestamp::from_millis(jiff::Timestamp::now().as_millisecond() - seconds * 1000)
}

fn delivery(contract: &'static str, number: i64) -> Case {
    Case::sent_at(contract, seconds_ago(0), Payload::Number(number))
}

fn tampered(mut case: Case) -> Case {
    *case.body.last_mut().unwrap() ^= 1;
    case
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_example_takes_each_delivery_of_every_contract_once_and_no_forgery() {
    for language in Language::ALL {
        for contract in CONTRACTS {
            let who = format!("{language:?} {contract}");
            let server =
                ExampleServer::start(language, contract, &[&secret(contract, 2), &secret(contract, 1)]).await;
            assert_eq!(server.health().await, 200, "{who}");
            let post = async |case: Case| server.post(&case).await;
            assert_eq!(post(delivery(contract, 1)).await, (200, "received".to_owned()), "{who}");
            assert_eq!(post(delivery(contract, 1)).await, (200, "known already".to_owned()), "{who}");
            assert_eq!(post(delivery(contract, 2)).await, (200, "received".to_owned()), "{who}");
            let (status, why) = post(tampered(delivery(contract, 3))).await;
            assert_eq!((status, why.starts_with("signature_mismatch: ")), (400, true), "{who}: {why}");
            assert_eq!(
                post(delivery(contract, 3)).await,
                (200, "received".to_owned()),
                "{who}: no trace of it"
            );
            let old = Case::sent_at(contract, seconds_ago(3600), Payload::Number(4));
            let (status, why) = post(old).await;
            if contract == "orientedos" {
                assert_eq!(status, 200, "{who}: it carries no time");
            } else {
                assert_eq!((status, why.starts_with("timestamp_too_old: ")), (400, true), "{who}: {why}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_example_keeps_faults_of_its_own_apart_from_those_of_the_sender() {
    for language in Language::ALL {
        let server = ExampleServer::start(language, "standard", &[&secret("standard", 1)]).await;
        server.data_is_there(false);
        assert_eq!(server.post(&delivery("standard", 1)).await.0, 500, "{language:?}");
        assert_eq!(server.post(&tampered(delivery("standard", 1))).await.0, 400, "{language:?}");
        assert_eq!(server.health().await, 503, "{language:?}");
        server.data_is_there(true);
        assert_eq!(server.health().await, 200, "{language:?}");
        let retried = server.post(&delivery("standard", 1)).await;
        assert_eq!(
            retried,
            (200, "received".to_owned()),
            "{language:?}: the first one was not taken for done"
        );

        for unusable in ["not JSON", "[1]", "7", "{\"a\":1"] {
            let case = Case::sent_at("standard", seconds_ago(0), Payload::Bytes(unusable.as_bytes()));
            assert_eq!(server.post(&case).await.0, 422, "{language:?}: {unusable}");
        }
        let large = vec![b' '; 1024 * 1024 + 1];
        assert_eq!(server.send(&[], large).await.status, 413, "{language:?}");
        let full = [vec![b' '; 1024 * 1024 - 2], b"{}".to_vec()].concat();
        let full = Case::sent_at("standard", seconds_ago(0), Payload::Bytes(&full));
        assert_eq!(server.post(&full).await.0, 200, "{language:?}: as much as is allowed");
    }
    for (language, contract, unusable) in Language::ALL
        .iter()
        .flat_map(|language| [(language, "zerofee", "{\"a\":1}"), (language, "simpaisa", "{\"event_id\":7}")])
    {
        let server = ExampleServer::start(*language, contract, &[&secret(contract, 1)]).await;
        let case = Case::sent_at(contract, seconds_ago(0), Payload::Bytes(unusable.as_bytes()));
        assert_eq!(server.post(&case).await.0, 422, "{language:?} {contract}: an event without its id");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_that_come_at_once_every_example_takes_one() {
    for language in Language::ALL {
        let server = ExampleServer::start(language, "zerofee", &[&secret("zerofee", 1)]).await;
        let server = Arc::new(server);
        let case = Arc::new(delivery("zerofee", 1));
        let mut posts = tokio::task::JoinSet::new();
        for _ in 0..12 {
            let (server, case) = (server.clone(), case.clone());
            posts.spawn(async move { server.post(&case).await });
        }
        let mut answers = posts.join_all().await;
        answers.sort();
        assert!(answers.iter().all(|(status, _)| *status == 200), "{language:?}: {answers:?}");
        let received = answers.iter().filter(|(_, text)| text == "received").count();
        assert_eq!(received, 1, "{language:?}: {answers:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_example_starts_without_a_secret_that_can_verify() {
    for language in Language::ALL {
        for secrets in [vec![], vec!["whsec_too short"]] {
            if language == Language::Php {
                // This server has no start of its own: a wrong setup is a 500 on each request.
                let server = ExampleServer::start(language, "standard", &secrets).await;
                assert_eq!(server.post(&delivery("standard", 1)).await.0, 500);
                continue;
            }
            let folder = tempfile::tempdir().unwrap();
            let process = spawn(language, "standard", &secrets, folder.path());
            let output = tokio::time::timeout(WAIT_MAX, process.wait_with_output()).await.unwrap().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success() && said.contains("WEBHOOK_SECRET"), "{language:?}: {said}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_real_binary_delivers_to_every_example_and_a_replay_is_known_already() {
    let home = NodeFolder::new();
    let node = home.start().await;
    let client = node.client.clone();
    client.make_app("shop").await;
    let shared = secret("standard", 1);
    let mut servers = Vec::new();
    for language in Language::ALL {
        let server = ExampleServer::start(language, "standard", &[&shared]).await;
        let id = format!("{language:?}");
        client.make_endpoint("shop", &id, &server.url(), json!({ "secret": shared })).await;
        servers.push(server);
    }
    let event = json!({ "type": "order.paid", "data": { "é": "😀 <\u{2028}", "z": 1.0 } });
    let published = client.publish("shop", &event).await;
    let answered = async |delivery: &Value| {
        let id = delivery["id"].as_str().unwrap();
        let done = wait_for("it is delivered", WAIT_MAX, async || {
            Some(client.delivery("shop", id).await).filter(|delivery| delivery["status"] == "delivered")
        });
        let done = done.await;
        let attempts = done["attempts"].as_array().unwrap().clone();
        assert_eq!(attempts.len(), 1, "{done}");
        attempts[0]["response_body"].clone()
    };
    let deliveries = published["deliveries"].as_array().unwrap();
    assert_eq!(deliveries.len(), Language::ALL.len());
    for delivery in deliveries {
        assert_eq!(answered(delivery).await, "received", "{delivery}");
        let path = format!("/v1/apps/shop/deliveries/{}/replay", delivery["id"].as_str().unwrap());
        let replay = client.post(&path, &json!({})).await;
        assert!(replay.status < 300, "{}", replay.text());
        assert_eq!(answered(&replay.json()).await, "known already", "{delivery}");
    }
}
