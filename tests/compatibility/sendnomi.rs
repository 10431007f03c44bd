//! sendnomi: the headers of Standard Webhooks, the key as its sample has it: the secret as it is, `whsec_` included.

use crate::{
    article_receiver::ArticleReceiver,
    fixture::{DATA, Fixture, own_agent, started},
};
use serde_json::json;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sendnomi_is_accepted_by_its_node_receiver() {
    let article = ArticleReceiver::start("sendnomi.mjs", SECRET).await;
    let fixture = Fixture::start("sendnomi", json!({ "id_prefix": "msg" })).await;
    fixture.two_endpoints(&article, SECRET).await;

    let published = fixture.publish("good.event", None, DATA).await;
    let delivered = fixture.until(&published.delivery, "delivered").await;
    let request = &article.requests("/hook", 1).await[0];
    assert!(request.accepted, "{}", request.why);
    assert!(published.id.starts_with("msg_"), "{}", published.id);
    assert_eq!(
        request.body,
        format!(
            r#"{{"id":"{}","type":"good.event","created_at":"{}","data":{DATA}}}"#,
            published.id, published.created_at
        )
    );
    let signature = request.header("webhook-signature");
    assert_eq!((&signature[..3], signature.len()), ("v1,", 47), "exactly one");
    request.must_have(&[
        ("content-type", "application/json"),
        ("user-agent", &own_agent()),
        ("webhook-id", &published.id),
        ("webhook-timestamp", &started(&delivered, 0).1),
        ("webhook-signature", signature),
    ]);

    let published = fixture.publish("bad.event", None, DATA).await;
    let dead = fixture.until(&published.delivery, "dead").await;
    for (i, request) in article.requests("/answer/500", 3).await.iter().enumerate() {
        assert!(request.accepted, "{}", request.why);
        assert_eq!(request.header("webhook-id"), published.id, "the event's, on every attempt");
        assert_eq!(request.header("webhook-timestamp"), started(&dead, i).1, "the attempt's");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_4xx_of_sendnomi_s_receiver_is_final() {
    let article = ArticleReceiver::start("sendnomi.mjs", "whsec_another secret than the sender's").await;
    let fixture = Fixture::start("sendnomi", json!({ "id_prefix": "msg" })).await;
    fixture.two_endpoints(&article, SECRET).await;
    let published = fixture.publish("good.event", None, DATA).await;
    let dead = fixture.until(&published.delivery, "dead").await;
    assert_eq!((&dead["reason"], &dead["attempt_count"]), (&json!("refused_by_receiver"), &json!(1)));
    let request = &article.requests("/hook", 1).await[0];
    assert_eq!((request.accepted, &request.why), (false, &json!("wrong signature")), "the receiver can tell");
}
