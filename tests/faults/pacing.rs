//! An endpoint with a rate limit and a hundred thousand waiting deliveries after an outage: it is never called faster than
//! its rate, and new events do not wait behind the backlog.

use crate::harness::{Behaviour, NodeFolder, TestReceiver, quantile, wait_for, wait_until};
use serde_json::json;
use std::{collections::HashMap, time::Duration};
use tokio::time::Instant;

const WAIT_LIMIT: Duration = Duration::from_mins(1);
const PER_SECOND: u32 = 400;
const BURST: u32 = 50;
const FRESH: usize = 100;
/// The receiver records requests a little later than they were sent, and some later than others.
const TIME_TOLERANCE: Duration = Duration::from_millis(300);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recovered_endpoint_with_a_hundred_thousand_waiting_is_called_at_its_rate_and_fresh_events_are_prompt()
 {
    let (home, receiver) = (NodeFolder::new(), TestReceiver::start().await);
    let node = home.start().await;
    let client = &node.client;
    client.make_app("a").await;
    let rate = json!({ "rate_limit": { "per_second": PER_SECOND, "burst": BURST } });
    client.make_endpoint("a", "e", &receiver.url("/in"), rate).await;
    receiver.behave("/in", Behaviour::Status(500));
    let batch = json!({ "events": vec![json!({ "type": "old", "data": 1 }); 1000] });
    for _ in 0..100 {
        client.post("/v1/apps/a/events/batch", &batch).await.expect(200);
    }
    wait_until("its circuit opens", WAIT_LIMIT, async || {
        client.metric("posthaste_circuits_open").await > 0.0
    })
    .await;
    let tried_while_down = receiver.count_at("/in");
    assert!(tried_while_down < 1000, "{tried_while_down} of 100,000 were tried at an endpoint that is down");
    receiver.behave("/in", Behaviour::Ok);
    // A manual retry closes the circuit before the next probe does.
    let retrying = "/v1/apps/a/deliveries?status=retrying&limit=1";
    let one = wait_for("one waits for a retry", WAIT_LIMIT, async || client.list(retrying).await.pop()).await;
    let retry = format!("/v1/apps/a/deliveries/{}/retry", one["id"].as_str().unwrap());
    client.post(&retry, &json!({})).await;
    wait_until("the backlog drains", WAIT_LIMIT, async || receiver.count_at("/in") > tried_while_down + 200)
        .await;

    let mut sent_at = HashMap::new();
    let mut ticks = tokio::time::interval(Duration::from_millis(40));
    for n in 0..FRESH {
        ticks.tick().await;
        let id = format!("fresh-{n}");
        sent_at.insert(id.clone(), Instant::now());
        client.publish("a", &json!({ "id": id, "type": "new", "data": n })).await;
    }
    let fresh = || {
        let receipts = receiver.receipts_at("/in").into_iter();
        receipts.filter(|receipt| receipt.id().starts_with("fresh-")).collect::<Vec<_>>()
    };
    wait_until("every fresh event arrives", WAIT_LIMIT, async || fresh().len() >= FRESH).await;
    let times: Vec<Duration> = fresh().iter().map(|receipt| receipt.at - sent_at[receipt.id()]).collect();
    let p99 = quantile(times, 0.99);
    let drained = &receiver.receipts_at("/in")[tried_while_down..];
    let span = drained.last().unwrap().at - drained[0].at;
    println!("fresh p99 {p99:?} beside {} of a backlog in {span:?}", drained.len());
    assert!(p99 < Duration::from_secs(5), "{p99:?}");
    assert!(drained.len() > FRESH * 2, "the backlog drains meanwhile: {}", drained.len());
    for (first, from) in drained.iter().enumerate() {
        for (until, count) in drained[first..].iter().zip(1u32..) {
            let allowed = f64::from(BURST)
                + f64::from(PER_SECOND) * (until.at - from.at + TIME_TOLERANCE).as_secs_f64();
            assert!(f64::from(count) <= allowed, "{count} requests within {:?}", until.at - from.at);
        }
    }
}
