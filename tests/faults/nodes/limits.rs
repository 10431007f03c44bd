//! Limits of an app hold over all its endpoints together, and over all nodes: also during a takeover from a node that was at the
//! limit, and while shards move to a node that joins.

use super::{
    fixture::{ClusterFixture, WAIT_LIMIT},
    verdict::{ENDPOINT_LIMITS, over_rate},
};
use crate::harness::{Behaviour, ReceivedWebhook, report, wait_until};
use serde_json::{Value, json};
use std::{collections::HashSet, time::Duration};
use tokio::time::Instant;

/// Events of each of the two apps, and the size of a batch.
const EVENTS: usize = 160;
const AT_ONCE: usize = 20;
/// Duration of a request to the app with a limit of requests in flight.
const TAKES: Duration = Duration::from_millis(100);
const ENDPOINTS: [&str; 2] = ["one", "two"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limits_of_an_app_hold_over_three_nodes_while_one_is_taken_over() {
    let mut fixture = ClusterFixture::set("").await;
    let slim = json!({ "max_in_flight": ENDPOINT_LIMITS.in_flight });
    let calm =
        json!({ "rate_limit": { "per_second": ENDPOINT_LIMITS.per_second, "burst": ENDPOINT_LIMITS.burst } });
    create_app(&fixture, "slim", Behaviour::Slow(TAKES), slim).await;
    create_app(&fixture, "calm", Behaviour::Ok, calm).await;
    let begun = Instant::now();
    for app in ["slim", "calm"] {
        publish(&fixture, app).await;
    }
    let mut takeovers = Vec::new();
    for app in ["slim", "calm"] {
        let dead = fixture.owner_of(&format!("{app}-one")).await;
        let (epoch, killed_at) = (fixture.epoch(dead).await, Instant::now());
        fixture.members[dead].node.kill().await;
        assert!(fixture.in_flight_on(epoch).await > 0, "it died with nothing in flight");
        takeovers.push(fixture.taken_over(epoch, (dead + 1) % 3, killed_at).await);
        let sent = fixture.receiver.count_at(&format!("/{app}"));
        let goes_on = async || fixture.receiver.count_at(&format!("/{app}")) > sent + AT_ONCE;
        wait_until("another sends", WAIT_LIMIT, goes_on).await;
        fixture.start_again(dead).await;
    }
    for app in ["slim", "calm"] {
        wait_until("all have come", WAIT_LIMIT, async || has_all(&fixture, app)).await;
    }
    let most = fixture.receiver.open_most_at("/slim");
    let over = over_rate(&fixture.receiver.receipts_at("/calm"));
    let sent = ["/slim", "/calm"].map(|path| fixture.receiver.count_at(path));
    report(format_args!(
        "three nodes, limits of an app: most_in_flight={most} over_rate={over} sent={sent:?} takeovers={takeovers:.1?} in {:.1?}",
        begun.elapsed()
    ));
    assert_eq!(most, ENDPOINT_LIMITS.in_flight, "as many as it may, over both endpoints");
    assert_eq!(over, 0, "no faster than it may, over both endpoints");
}

/// Creates an app with these limits and two endpoints with the same URL.
async fn create_app(fixture: &ClusterFixture, app: &str, behaviour: Behaviour, limits: Value) {
    let path = format!("/{app}");
    fixture.receiver.behave(&path, behaviour);
    let client = fixture.client(0);
    client.post("/v1/apps", &json!({ "id": app, "name": app, "limits": limits })).await.expect(201);
    for endpoint in ENDPOINTS {
        let id = format!("{app}-{endpoint}");
        client.make_endpoint(app, &id, &fixture.receiver.url(&path), json!({})).await;
    }
    for member in 0..3 {
        let (client, path) = (fixture.client(member), format!("/v1/apps/{app}/endpoints/{app}-two"));
        wait_until("every node knows it", WAIT_LIMIT, async || client.get(&path).await.status == 200).await;
    }
}

/// Publishes to all nodes in turn.
async fn publish(fixture: &ClusterFixture, app: &str) {
    for batch in 0..EVENTS / AT_ONCE {
        let events: Vec<Value> = (0..AT_ONCE).map(|n| json!({ "type": "t", "data": n })).collect();
        let path = format!("/v1/apps/{app}/events/batch");
        fixture.client(batch % 3).post(&path, &json!({ "events": events })).await.expect(200);
    }
}

/// Whether every event has arrived at both endpoints.
fn has_all(fixture: &ClusterFixture, app: &str) -> bool {
    let receipts = fixture.receiver.receipts_at(&format!("/{app}"));
    let events: HashSet<&str> = receipts.iter().map(ReceivedWebhook::id).collect();
    events.len() == EVENTS && receipts.len() >= EVENTS * ENDPOINTS.len()
}
