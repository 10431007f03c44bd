//! orientedos: one flat object, signed without a time; data that is not flat ends dead and is no error for the producer.

use crate::{
    article_receiver::ArticleReceiver,
    fixture::{DATA, Fixture},
};
use serde_json::{Value, json};

const SECRET: &str = "a text as it is, é included";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orientedos_is_accepted_by_its_python_receiver() {
    let article = ArticleReceiver::start("orientedos.py", SECRET).await;
    let fixture = Fixture::start("orientedos", Value::Null).await;
    fixture.two_endpoints(&article, SECRET).await;
    let inside = DATA.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap();

    let published = fixture.publish("good.event", None, DATA).await;
    fixture.until(&published.delivery, "delivered").await;
    let request = &article.requests("/hook", 1).await[0];
    assert!(request.accepted, "{}", request.why);
    assert_eq!(request.body, format!(r#"{{"event":"good.event",{inside}}}"#));
    assert_eq!((&request.parsed["event"], &request.parsed["n"]["x"]), (&json!("good.event"), &json!(1e5)));
    let signature = request.header("x-orientedos-signature");
    assert_eq!((&signature[..7], signature.len()), ("sha256=", 71));
    request.must_have(&[
        ("content-type", "application/json"),
        ("user-agent", "OrientedOS-Webhooks/1.0"),
        ("x-orientedos-event", "good.event"),
        ("x-orientedos-delivery-id", &published.delivery),
        ("x-orientedos-signature", signature),
    ]);

    // The contract's final wait comes after the last attempt, so this one is not dead yet.
    let published = fixture.publish("bad.event", None, DATA).await;
    for request in article.requests("/answer/500", 3).await {
        assert!(request.accepted, "{}", request.why);
        assert_eq!(
            request.header("x-orientedos-delivery-id"),
            published.delivery,
            "the same on every attempt"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_that_cannot_be_flat_is_published_and_ends_dead() {
    let article = ArticleReceiver::start("orientedos.py", SECRET).await;
    let fixture = Fixture::start("orientedos", Value::Null).await;
    fixture.two_endpoints(&article, SECRET).await;
    for data in ["[1]", "\"text\"", "7", "null", r#"{"event":"mine"}"#, r#"{"a":1,"\u0065vent":2}"#] {
        let published = fixture.publish("good.event", None, data).await;
        let dead = fixture.until(&published.delivery, "dead").await;
        assert_eq!(dead["reason"], "serialisation_failed", "{data}");
    }
    let published = fixture.publish("good.event", None, "{ }").await;
    fixture.until(&published.delivery, "delivered").await;
    assert_eq!(article.requests("/hook", 1).await[0].parsed, json!({ "event": "good.event" }));
}
