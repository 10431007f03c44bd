//! Operational webhooks: an endpoint that subscribes to them by name gets them once, signed like everything else, and they
//! make no notices of their own.

use crate::fixture::{ADMIN, Behaviour, Fixture};
use posthaste::service::{endpoints::NewEndpoint, notices::NoticeQuery, replays::NewReplay};
use serde_json::Value;
use std::time::Duration;

const HOUR: Duration = Duration::from_hours(1);

async fn subscribe(fixture: &Fixture, uid: &str, event_types: &[&str]) {
    let endpoint = NewEndpoint {
        uid: Some(uid.into()),
        url: format!("https://{uid}.example/hook"),
        event_types: Some(event_types.iter().map(ToString::to_string).collect()),
        ..NewEndpoint::default()
    };
    fixture.service.add_endpoint(ADMIN, &fixture.entry, endpoint).await.unwrap();
}

/// Bodies of the operational webhooks that were sent, one for each attempt.
fn operational(fixture: &Fixture) -> Vec<Value> {
    let bodies =
        fixture.requests().into_iter().map(|seen| serde_json::from_slice::<Value>(&seen.body).unwrap());
    bodies.filter(|body| body["type"].as_str().is_some_and(|name| name.starts_with("posthaste."))).collect()
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_is_sent_once_to_endpoints_that_subscribe_to_it_by_name() {
    let fixture = Fixture::new("bastionary", Behaviour::Answer(500)).await;
    subscribe(&fixture, "ops", &["posthaste.delivery.*"]).await;
    subscribe(&fixture, "others", &["posthaste.endpoint.*", "*"]).await;
    fixture.publish().await;
    fixture.pass(HOUR).await;
    let notices =
        fixture.service.notices_of(&fixture.entry, NoticeQuery::default(), None, 50).await.unwrap().rows;
    assert_eq!(notices.len(), 2, "one for ep and one for others; dead operational webhooks make no notices");
    let bodies = operational(&fixture);
    let ids: std::collections::HashSet<_> = bodies.iter().map(|body| body["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 2, "one event for each notice, whatever its attempts: {bodies:#?}");
    let about: Vec<_> = bodies.iter().map(|body| body["data"]["endpoint_id"].as_str().unwrap()).collect();
    assert!(about.contains(&"ep") && about.contains(&"others"), "{about:?}");
    assert_eq!(bodies[0]["type"], "posthaste.delivery.dead");
    assert_eq!(bodies[0]["data"]["reason"], "exhausted");
}

#[tokio::test(start_paused = true)]
async fn a_backfill_brings_published_events_and_no_operational_webhooks() {
    let fixture = Fixture::new("bastionary", Behaviour::Answer(500)).await;
    subscribe(&fixture, "ops", &["posthaste.*"]).await;
    fixture.publish().await;
    fixture.pass(HOUR).await;
    fixture.set_behaviour(Behaviour::Answer(200));
    subscribe(&fixture, "late", &["*", "posthaste.*"]).await;
    let bodies = operational(&fixture).len();
    assert!(bodies > 0);
    let backfill = fixture.service.backfill_of(&fixture.entry, "late", &NewReplay::default()).unwrap();
    let begun = fixture.service.begin_replay(ADMIN, &fixture.entry, backfill).await.unwrap();
    assert_eq!(begun.replay.total, 1);
    fixture.pass(HOUR).await;
    let of_late = operational(&fixture).split_off(bodies);
    let types: Vec<_> = of_late.iter().map(|body| body["type"].as_str().unwrap()).collect();
    assert!(types.iter().all(|name| *name == "posthaste.replay.finished"), "news alone: {types:?}");
}

#[tokio::test(start_paused = true)]
async fn a_notice_about_an_endpoint_is_not_sent_to_that_endpoint() {
    let fixture = Fixture::new("bastionary", Behaviour::Answer(500)).await;
    fixture.service.remove_endpoint(ADMIN, &fixture.entry, "ep").await.unwrap();
    subscribe(&fixture, "all", &["*", "posthaste.*"]).await;
    fixture.publish().await;
    fixture.pass(HOUR).await;
    let notices =
        fixture.service.notices_of(&fixture.entry, NoticeQuery::default(), None, 50).await.unwrap().rows;
    assert_eq!(notices.len(), 1);
    assert_eq!(operational(&fixture), Vec::<Value>::new());
}
