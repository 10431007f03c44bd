//! A file of commit 80468f2 is upgraded and goes on: what waited in it goes out, its secrets sign, and its contracts explain the
//! past.

use crate::{
    fixture::{Behaviour, Fixture, SeenRequest},
    node_builder::{ENGINE_LIMITS, NoWatch, QUEUE},
};
use bytes::Bytes;
use posthaste::{
    domain::{delivery::DeliveryState, id::EndpointId, time::Timestamp},
    engine::EndpointQueues,
    runtime::NodeLease,
    service::{Error, deliveries::DeliveryQuery, publish::PublishRequest},
    store::sqlite::SqliteStore,
};
use rusqlite::Connection;
use standardwebhooks::Webhook;
use std::{sync::Arc, time::Duration};
use tempfile::TempDir;

const DUMP: &str = include_str!("../conformance/upgrade/80468f2.sqlite.sql");
/// Shortly after the process of that commit was killed.
const AT: Timestamp = Timestamp::from_millis(1_795_069_510_000);
/// The older secret of the endpoint `full`, which signs for a day.
const SECRET: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

/// Starts on an upgraded file, with a receiver that accepts everything.
async fn upgraded() -> (TempDir, Fixture) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("posthaste.db");
    Connection::open(&path).unwrap().execute_batch(DUMP).unwrap();
    let (queues, _events) =
        EndpointQueues::new(ENGINE_LIMITS, Arc::default(), Arc::new(NodeLease::single_node()));
    drop(SqliteStore::open(&path, queues, Arc::new(NoWatch), QUEUE, Duration::ZERO).unwrap());
    let file = Connection::open(&path).unwrap();
    (folder, Fixture::on_file(file, "shop", AT, Behaviour::Answer(200)).await)
}

fn endpoint(fixture: &Fixture, uid: &str) -> EndpointId {
    fixture.entry.endpoints().iter().find(|endpoint| endpoint.record.uid == uid).unwrap().id()
}

fn header<'a>(request: &'a SeenRequest, name: &str) -> &'a str {
    &request.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).unwrap().1
}

#[tokio::test(start_paused = true)]
async fn what_waited_goes_out() {
    let (_folder, fixture) = upgraded().await;
    let before = fixture.deliveries().await;
    let (off, gone, line) =
        (endpoint(&fixture, "off"), endpoint(&fixture, "gone"), endpoint(&fixture, "line"));
    fixture.pass(Duration::from_hours(3)).await;
    let after = fixture.deliveries().await;
    assert_eq!(after.len(), before.len());
    let mut went_out = 0;
    for (was, is) in before.iter().zip(&after) {
        assert_eq!(was.id, is.id);
        if was.state.is_terminal() || [off, gone].contains(&was.endpoint) {
            assert_eq!(is, was, "it has ended, or its endpoint is disabled");
        } else if was.endpoint == line {
            assert!(is.state.is_waiting() && is.ordering_key.is_some(), "a dead one blocks it: {is:?}");
        } else {
            assert_eq!(is.state, DeliveryState::Delivered, "{was:?}");
            went_out += 1;
        }
    }
    assert!(went_out >= 10, "{went_out}");
    assert_eq!(fixture.requests().len(), went_out);
}

#[tokio::test(start_paused = true)]
async fn secrets_and_static_headers_are_those_that_the_receiver_knows() {
    let (_folder, fixture) = upgraded().await;
    let new = PublishRequest {
        id: Some("new"),
        event_type: "order.paid",
        data: Bytes::from_static(br#"{"total": 6}"#),
        created_at: None,
        key: Some("order-99"),
        deliver_at: None,
        idempotency_key: None,
    };
    fixture.service.publish(&fixture.entry, new).await.unwrap();
    fixture.pass(Duration::from_mins(1)).await;
    let full = endpoint(&fixture, "full");
    let is_new = |seen: &SeenRequest| {
        seen.endpoint == full
            && serde_json::from_slice::<serde_json::Value>(&seen.body).unwrap()["data"]["total"] == 6
    };
    let seen = fixture.requests().into_iter().find(is_new).unwrap();
    let (id, at) = (header(&seen, "webhook-id"), header(&seen, "webhook-timestamp"));
    let signature = Webhook::new(SECRET).unwrap().sign(id, at.parse().unwrap(), &seen.body).unwrap();
    assert!(header(&seen, "webhook-signature").split(' ').any(|one| one == signature), "{:?}", seen.headers);
    assert_eq!(header(&seen, "authorization"), "Bearer t0ken");
}

#[tokio::test(start_paused = true)]
async fn an_id_that_was_published_before_is_known() {
    let (_folder, fixture) = upgraded().await;
    let again = |data: &'static [u8]| PublishRequest {
        id: Some("paid-1"),
        event_type: "order.paid",
        data: Bytes::from_static(data),
        created_at: Some(Timestamp::from_millis(1_767_323_045_678)),
        key: Some("order-1"),
        deliver_at: None,
        idempotency_key: None,
    };
    let published = fixture.service.publish(&fixture.entry, again(br#"{"total": 5}"#)).await.unwrap();
    assert!(!published.is_new, "{published:?}");
    let other = fixture.service.publish(&fixture.entry, again(br#"{"total": 6}"#)).await;
    assert!(matches!(other, Err(Error::PublishedBefore { .. })), "{other:?}");
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_contract_of_the_past_is_an_error_that_names_it() {
    let (_folder, fixture) = upgraded().await;
    let list = async || fixture.service.deliveries(&fixture.entry, DeliveryQuery::default(), None, 100).await;
    let is_listed = list().await.unwrap().rows.iter().any(|row| row.delivery.state == DeliveryState::Dead);
    assert!(is_listed, "a dead delivery is listed with the contract that it died under");
    let damage = "UPDATE contracts SET document = replace(document, '\"dead_letters\"', '\"dead_mails\"')";
    assert!(fixture.on_disk(|file| file.execute(damage, [])).unwrap() > 1);
    let refused = list().await.expect_err("it is an error").to_string();
    assert!(refused.contains("contract ") && refused.contains("dead_mails"), "{refused}");
}
