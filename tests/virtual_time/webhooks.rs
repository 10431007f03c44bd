//! Operational webhooks: an endpoint that subscribes to them by name gets them once, signed like everything else, and they
//! make no notices of their own.

use crate::fixture::{ADMIN, Behaviour, Fixture};
use posthaste::service::{endpoints::NewEndpoint, notices::NoticeQuery, replays::NewReplay};
use serde_json::Value;
use std::time::Duration;

const HOUR: Duration = Duration::from_hours(1);

async fn subscribe(stage: &Fixture, uid: &str, event_types: &[&str]) {
    let endpoint = NewEndpoint {
        uid: Some(uid.into()),
        url: format!("https://{uid}.example/hook"),
        event_types: Some(event_types.iter().map(ToString::to_string).collect()),
        ..NewEndpoint::default()
    };
    stage.service.add_endpoint(ADMIN, &stage.entry, endpoint).await.unwrap();
}

/// Bodies of the operational webhooks that were sent, one for each attempt.
fn operational(stage: &Fixture) -> Vec<Value> {
    let bodies =
        stage.requests().into_iter().map(|seen| serde_json::from_slice::<Value>(&seen.body).unwrap());
    bodies.filter(|body| body["type"].as_str().is_some_and(|name| name.starts_with("posthaste."))).collect()
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_is_sent_once_to_endpoints_that_subscribe_to_it_by_name() {
    let stage = Fixture::new("bastionary", Behaviour::Answer(500)).await;
    subscribe(&stage, "ops", &["posthaste.delivery.*"]).await;
    subscribe(&stage, "others", &["posthaste.endpoint.*", "*"]).await;
    stage.publish().await;
    stage.pass(HOUR).await;
    let notices =
        stage.service.notices_of(&stage.entry, NoticeQuery::default(), None, 50).await.unwrap().rows;
    assert_eq!(notices.len(), 2, "one for ep and one for others; dead operational webhooks make no notices");
    let told = operational(&stage);
    let ids: std::collections::HashSet<_> = told.iter().map(|body| body["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 2, "one event for each notice, whatever its attempts: {told:#?}");
    let about: Vec<_> = told.iter().map(|body| body["data"]["endpoint_id"].as_str().unwrap()).collect();
    assert!(about.contains(&"ep") && about.contains(&"others"), "{about:?}");
    assert_eq!(told[0]["type"], "posthaste.delivery.dead");
    assert_eq!(told[0]["data"]["reason"], "exhausted");
}

#[tokio::test(start_paused = true)]
async fn a_backfill_brings_published_events_and_no_operational_webhooks() {
    let stage = Fixture::new("bastionary", Behaviour::Answer(500)).await;
    subscribe(&stage, "ops", &["posthaste.*"]).await;
    stage.publish().await;
    stage.pass(HOUR).await;
    stage.set_behaviour(Behaviour::Answer(200));
    subscribe(&stage, "late", &["*", "posthaste.*"]).await;
    let told = operational(&stage).len();
    assert!(told > 0);
    let backfill = stage.service.backfill_of(&stage.entry, "late", &NewReplay::default()).unwrap();
    let begun = stage.service.begin_replay(ADMIN, &stage.entry, backfill).await.unwrap();
    assert_eq!(begun.replay.total, 1);
    stage.pass(HOUR).await;
    let of_late = operational(&stage).split_off(told);
    let types: Vec<_> = of_late.iter().map(|body| body["type"].as_str().unwrap()).collect();
    assert!(types.iter().all(|name| *name == "posthaste.replay.finished"), "news alone: {types:?}");
}

#[tokio::test(start_paused = true)]
async fn a_notice_about_an_endpoint_is_not_sent_to_that_endpoint() {
    let stage = Fixture::new("bastionary", Behaviour::Answer(500)).await;
    stage.service.remove_endpoint(ADMIN, &stage.entry, "ep").await.unwrap();
    subscribe(&stage, "all", &["*", "posthaste.*"]).await;
    stage.publish().await;
    stage.pass(HOUR).await;
    let notices =
        stage.service.notices_of(&stage.entry, NoticeQuery::default(), None, 50).await.unwrap().rows;
    assert_eq!(notices.len(), 1);
    assert_eq!(operational(&stage), Vec::<Value>::new());
}
