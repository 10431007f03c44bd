//! Static headers of an endpoint: sent with every request, shown without values, never in place of the product's own.

use crate::fixture::{HOOK, TestServer, receiver};
use serde_json::{Map, Value, json};

#[tokio::test]
async fn static_headers_are_sent_and_shown_without_their_values() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let app = server.app().await;
    let headers = json!({ "Authorization": "Bearer marker-1", "X-Team": "marker-2", "x-empty": "" });
    let made =
        app.post("/endpoints", &json!({ "id": "e", "url": receiver.url(HOOK), "headers": headers })).await;
    assert!(!made.text().contains("marker"), "{}", made.text());
    let shown = made.is(201)["headers"].clone();
    let mut names: Vec<String> = shown.as_object().unwrap().keys().map(|name| name.to_lowercase()).collect();
    names.sort();
    assert_eq!(names, ["authorization", "x-empty", "x-team"]);
    for path in ["/endpoints/e", "/endpoints"] {
        assert!(!app.get(path).await.text().contains("marker"));
    }
    app.until_is(&app.deliver().await, "delivered").await;
    let receipt = receiver.receipts().pop().unwrap();
    assert_eq!((receipt.header("authorization"), receipt.header("x-team")), ("Bearer marker-1", "marker-2"));

    app.patch("/endpoints/e", &json!({ "headers": { "x-other": "marker-3" } })).await.is(200);
    app.until_is(&app.deliver().await, "delivered").await;
    let receipt = receiver.receipts().pop().unwrap();
    assert_eq!(
        (receipt.header("x-other"), receipt.header("authorization")),
        ("marker-3", ""),
        "replaced whole"
    );
}

#[tokio::test]
async fn the_operators_headers_are_on_every_request_unless_the_endpoint_has_its_own() {
    let server = TestServer::start_with(&[("SOURCE_HEADERS", "X-Source: eu-1, X-Env: prod")]).await;
    let receiver = receiver(200).await;
    let app = server.app().await;
    let (url, health) = (receiver.url(HOOK), receiver.url("/health"));
    app.endpoint(&url, json!({ "id": "e", "headers": { "x-env": "mine" }, "health_url": health })).await;
    app.until_is(&app.deliver().await, "delivered").await;
    let receipt = receiver.receipts().pop().unwrap();
    assert_eq!((receipt.header("x-source"), receipt.header("x-env")), ("eu-1", "mine"));
    assert_eq!(app.get("/endpoints/e").await.is(200)["headers"], json!({ "x-env": "•••" }));
    let ping = crate::fixture::text(&app.act("/endpoints/e/ping").await.is(202)["id"]);
    crate::inspect::until_ended(&app, &ping).await;
    let receipt = receiver.receipts().pop().unwrap();
    assert_eq!((receipt.path.as_str(), receipt.header("x-source")), ("/health", "eu-1"));
    assert_eq!(receipt.header("x-env"), "prod", "a health check has no headers of the endpoint's");
}

#[tokio::test]
async fn header_names_of_the_product_or_the_connection_are_refused() {
    let server = TestServer::start().await;
    let app = server.app().await;
    app.endpoint("http://127.0.0.1:9/", json!({ "id": "e" })).await;
    let forbidden = [
        "host",
        "Content-Length",
        "content-type",
        "Transfer-Encoding",
        "connection",
        "keep-alive",
        "TE",
        "trailer",
        "upgrade",
        "proxy-authorization",
        "proxy-connection",
        "expect",
        "Webhook-Id",
        "webhook-timestamp",
        "webhook-signature",
        "webhook-anything",
        "X-Hub-Signature",
        "signature",
        "user-agent",
        "",
        "a b",
        "a:b",
        "ü",
        "a\r\nx",
        "(a)",
    ];
    for name in forbidden {
        let headers = json!({ name: "x" });
        let answers = [
            app.post("/endpoints", &json!({ "url": "http://127.0.0.1:9/", "headers": headers })).await,
            app.patch("/endpoints/e", &json!({ "headers": headers })).await,
        ];
        for answer in answers {
            assert_eq!(answer.invalid_field(), format!("headers.{name}"));
        }
    }
    assert_eq!(app.get("/endpoints/e").await.is(200)["headers"], json!({}));
}

#[tokio::test]
async fn header_values_stay_on_their_line_and_within_their_limits() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let put = async |headers: Value| {
        app.post("/endpoints", &json!({ "url": "http://127.0.0.1:9/", "headers": headers })).await
    };
    for bad in ["marker\r\nx: y", "marker\n", "marker\0", "\tmarker", "marker ", "märker", &"x".repeat(4097)]
    {
        let answer = put(json!({ "x-a": bad })).await;
        assert_eq!(answer.invalid_field(), "headers.x-a", "{bad:?}");
        assert!(!answer.text().contains("marker"), "a value may be a credential: {}", answer.text());
    }
    assert_eq!(put(json!({ "x-a": 5 })).await.invalid_field(), "headers");
    assert_eq!(put(json!({ "x-a": "1", "X-A": "2" })).await.invalid_field(), "headers.X-A");
    let many = |count: usize| {
        Value::Object((0..count).map(|n| (format!("x-{n}"), json!("v"))).collect::<Map<_, _>>())
    };
    put(many(32)).await.is(201);
    assert_eq!(put(many(33)).await.invalid_field(), "headers");
    put(json!({ "x-a": "x".repeat(4096) })).await.is(201);
}
