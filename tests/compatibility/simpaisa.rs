//! simpaisa: the producer's own id, a time that is not signed, and the number of the attempt.

use crate::{
    article_receiver::ArticleReceiver,
    fixture::{DATA, Fixture, started},
};
use serde_json::{Value, json};

const SECRET: &str = "a text as it is, é included";
const ID: &str = "pk.payin.2026-11-15:000001";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn simpaisa_is_accepted_by_its_receiver() {
    let article = ArticleReceiver::start("simpaisa.py", SECRET).await;
    let fixture = Fixture::start("simpaisa", Value::Null).await;
    fixture.two_endpoints(&article, SECRET).await;

    let published = fixture.publish("good.event", Some(ID), DATA).await;
    assert_eq!(published.id, ID);
    let delivered = fixture.until(&published.delivery, "delivered").await;
    let request = &article.requests("/hook", 1).await[0];
    assert!(request.accepted, "{}", request.why);
    assert_eq!(
        request.body,
        format!(
            r#"{{"event_id":"{ID}","event_type":"good.event","merchant_id":"merchant-7","timestamp":"{}","version":"1","data":{DATA}}}"#,
            published.created_at
        )
    );
    let signature = request.header("x-simpaisa-signature");
    assert_eq!((&signature[..7], signature.len()), ("sha256=", 71));
    request.must_have(&[
        ("content-type", "application/json"),
        ("user-agent", "Simpaisa-Webhooks/1.0"),
        ("x-simpaisa-event-id", ID),
        ("x-simpaisa-event-type", "good.event"),
        ("x-simpaisa-timestamp", &started(&delivered, 0).1),
        ("x-simpaisa-delivery-attempt", "1"),
        ("x-simpaisa-signature", signature),
    ]);

    let published = fixture.publish("bad.event", None, DATA).await;
    fixture.until(&published.delivery, "dead").await;
    let replayed = fixture.replay(&published.delivery).await;
    let requests = article.requests("/answer/500", 6).await;
    let dead = fixture.until(&replayed, "dead").await;
    for (i, request) in requests.iter().enumerate() {
        assert!(request.accepted, "{}", request.why);
        assert_eq!(
            request.header("x-simpaisa-delivery-attempt"),
            (i + 1).to_string(),
            "counted on by a replay"
        );
        assert_eq!(request.header("x-simpaisa-timestamp"), started(&dead, i).1, "the attempt's");
        assert_eq!(request.header("x-simpaisa-event-id"), published.id);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_producer_s_id_starts_nothing_twice() {
    let article = ArticleReceiver::start("simpaisa.py", SECRET).await;
    let fixture = Fixture::start("simpaisa", Value::Null).await;
    fixture.two_endpoints(&article, SECRET).await;
    let published = fixture.publish("good.event", Some(ID), "{}").await;
    let again = json!({ "id": ID, "type": "good.event", "data": {} });
    let answer = fixture.client.try_publish("merchant-7", &again).await.unwrap().expect(200);
    assert_eq!(answer["deliveries"][0]["id"], *published.delivery, "{answer}");
    fixture.until(&published.delivery, "delivered").await;
    article.requests("/hook", 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_http_is_refused_unless_the_operator_allows_it() {
    let fixture = Fixture::start("simpaisa", Value::Null).await;
    let plain = json!({ "url": "http://127.0.0.1:1/hook" });
    let refused = fixture.client.post("/v1/apps/merchant-7/endpoints", &plain).await.expect(422);
    assert!(refused.to_string().contains("https"), "{refused}");
}
