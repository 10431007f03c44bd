//! Changing a secret where receivers read exactly one signature: the old one until the chosen instant, the new one from then on.

use crate::{
    article_receiver::ArticleReceiver,
    fixture::{Fixture, started},
    harness::{from_now, wait_for},
};
use serde_json::{Value, json};
use std::time::Duration;

const OLD: &str = "whsec_the old text as it is, é included";
const NEW: &str = "whsec_the new text as it is, ü included";
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Whether the header has a single signature and no more.
fn is_one_signature(contract: &str, value: &str) -> bool {
    let hex = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let found = match contract {
        "sendnomi" => {
            value.strip_prefix("v1,").map(|base64| base64.len() == 44 && !base64.contains([' ', ',']))
        }
        "zerofee" | "bastionary" => value.split_once(",v1=").map(|(t, v1)| t.starts_with("t=") && hex(v1)),
        _ => value.strip_prefix("sha256=").map(hex),
    };
    found == Some(true)
}

async fn one_takes_over_from_the_other(contract: &str, program: &str) {
    let (old, new) = (ArticleReceiver::start(program, OLD).await, ArticleReceiver::start(program, NEW).await);
    let fixture = Fixture::start(contract, Value::Null).await;
    let endpoint = json!({
        "secret": OLD,
        "overrides": { "https_only": false, "retry": { "waits": ["1h"], "jitter": "none" } },
    });
    fixture.client.make_endpoint("merchant-7", "one", &old.url("/hook"), endpoint).await;
    let rotate = async |effective_at: &str| {
        let rotate = json!({ "secret": NEW, "effective_at": effective_at });
        fixture.client.post("/v1/apps/merchant-7/endpoints/one/secret/rotate", &rotate).await.expect(200);
    };
    let instant = |text: &str| text.parse::<jiff::Timestamp>().unwrap().as_millisecond();
    // When a new event's first attempt started.
    let attempt = async || {
        let published = fixture.publish("good.event", None, "{\"a\":1.0}").await;
        let tried = wait_for("it is tried", WAIT_MAX, async || {
            Some(fixture.client.delivery("merchant-7", &published.delivery).await)
                .filter(|delivery| delivery["attempt_count"] == 1)
        });
        started(&tried.await, 0).0
    };
    let far_off = from_now(Duration::from_hours(1));
    rotate(&far_off).await;
    let mut is_after = vec![attempt().await >= instant(&far_off)];
    // A second planned rotation replaces the first.
    let soon = from_now(Duration::from_millis(500));
    rotate(&soon).await;
    wait_for("three attempts after the instant", WAIT_MAX, async || {
        is_after.push(attempt().await >= instant(&soon));
        (is_after.iter().filter(|after| **after).count() == 3).then_some(())
    })
    .await;
    assert!(!is_after[0]);
    for (request, is_after) in old.requests("/hook", is_after.len()).await.iter().zip(&is_after) {
        assert_eq!(request.accepted, !is_after, "{contract}: {} signs alone, and at its time", request.why);
        let header = if contract == "sendnomi" { "webhook".to_owned() } else { format!("x-{contract}") };
        let signature = request.header(&format!("{header}-signature"));
        assert!(is_one_signature(contract, signature), "{contract}: {signature}");
    }

    fixture
        .client
        .patch("/v1/apps/merchant-7/endpoints/one", &json!({ "url": new.url("/hook") }))
        .await
        .expect(200);
    let published = fixture.publish("good.event", None, "{}").await;
    fixture.until(&published.delivery, "delivered").await;
    let request = &new.requests("/hook", 1).await[0];
    assert!(request.accepted, "{contract}: {}", request.why);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zerofee_signs_once_also_during_a_rotation() {
    one_takes_over_from_the_other("zerofee", "zerofee.py").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bastionary_signs_once_also_during_a_rotation() {
    one_takes_over_from_the_other("bastionary", "bastionary.mjs").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orientedos_signs_once_also_during_a_rotation() {
    one_takes_over_from_the_other("orientedos", "orientedos.py").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sendnomi_signs_once_also_during_a_rotation() {
    one_takes_over_from_the_other("sendnomi", "sendnomi.mjs").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn simpaisa_signs_once_also_during_a_rotation() {
    one_takes_over_from_the_other("simpaisa", "simpaisa.py").await;
}
