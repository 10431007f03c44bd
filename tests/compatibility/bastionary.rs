//! bastionary: `livemode` and a delivery id that stays the same on every attempt and every replay, in header and body.

use crate::{
    article_receiver::ArticleReceiver,
    fixture::{DATA, Fixture, own_agent, started},
};
use serde_json::Value;

const SECRET: &str = "a text as it is, é included";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bastionary_is_accepted_by_its_node_receiver() {
    let article = ArticleReceiver::start("bastionary.mjs", SECRET).await;
    let fixture = Fixture::start("bastionary", Value::Null).await;
    fixture.two_endpoints(&article, SECRET).await;
    let body = |event_type: &str, published: &crate::fixture::Published| {
        format!(
            r#"{{"id":"{}","type":"{event_type}","created_at":"{}","livemode":false,"delivery_id":"{}","data":{DATA}}}"#,
            published.id, published.created_at, published.delivery
        )
    };

    let published = fixture.publish("good.event", None, DATA).await;
    let delivered = fixture.until(&published.delivery, "delivered").await;
    let again = fixture.replay(&published.delivery).await;
    assert_ne!(again, published.delivery, "what is delivered never changes");
    let replayed = fixture.until(&again, "delivered").await;
    assert!(published.id.starts_with("evt_") && published.delivery.starts_with("dlv_"));
    for (request, delivery) in article.requests("/hook", 2).await.iter().zip([delivered, replayed]) {
        assert!(request.accepted, "{}", request.why);
        assert_eq!(request.body, body("good.event", &published));
        assert_eq!(request.parsed["data"]["n"]["x"], 1e5);
        let signature = request.header("x-bastionary-signature");
        assert!(signature.starts_with(&format!("t={},v1=", started(&delivery, 0).1)), "{signature}");
        request.must_have(&[
            ("content-type", "application/json"),
            ("user-agent", &own_agent()),
            ("x-bastionary-event", "good.event"),
            ("x-bastionary-delivery", &published.delivery),
            ("x-bastionary-signature", signature),
        ]);
    }

    let published = fixture.publish("bad.event", None, DATA).await;
    fixture.until(&published.delivery, "dead").await;
    assert_eq!(fixture.replay(&published.delivery).await, published.delivery);
    for request in article.requests("/answer/500", 6).await {
        assert!(request.accepted, "{}", request.why);
        assert_eq!(
            request.header("x-bastionary-delivery"),
            published.delivery,
            "on every attempt and replay"
        );
        assert_eq!(request.body, body("bad.event", &published));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn livemode_is_the_app_s_setting() {
    let article = ArticleReceiver::start("bastionary.mjs", SECRET).await;
    let fixture = Fixture::start("bastionary", serde_json::json!({ "livemode": true })).await;
    fixture.two_endpoints(&article, SECRET).await;
    let published = fixture.publish("good.event", None, "{}").await;
    fixture.until(&published.delivery, "delivered").await;
    assert_eq!(article.requests("/hook", 1).await[0].parsed["livemode"], true);
}
