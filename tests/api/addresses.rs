//! Allowed addresses of endpoints: public ones, in any notation; over https unless the operator says otherwise.

use crate::fixture::{TestApp, TestServer, quick};
use serde_json::{Value, json};

/// Settings that allow public addresses only.
async fn closed() -> (TestServer, TestApp) {
    let server = TestServer::start_with(&[("ALLOW_ADDRESSES", ""), ("HTTPS_ONLY", "true")]).await;
    let app = server.app().await;
    (server, app)
}

const FORBIDDEN: [&str; 46] = [
    "127.0.0.1",
    "127.1",
    "127.255.255.254",
    "0x7f000001",
    "0x7f.0.0.1",
    "2130706433",
    "017700000001",
    "0177.0.0.1",
    "127.0.0.1.",
    "１２７.0.0.1",
    "127。0。0。1",
    "[::1]",
    "[::]",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b:1::1]",
    "[2002:7f00:1::]",
    "[2001:0:4136:e378:8000:63bf:80ff:fffe]",
    "0.0.0.0",
    "0",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    "100.64.0.1",
    "169.254.169.254",
    "192.0.0.1",
    "192.0.2.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "[fe80::1]",
    "[fc00::1]",
    "[fd00:ec2::254]",
    "[ff02::1]",
    "[2001:db8::1]",
    "[fec0::1]",
    "localhost",
    "intranet",
    "LOCALHOST.",
];

#[tokio::test]
async fn addresses_that_are_not_public_are_refused_in_any_spelling() {
    let (_world, app) = closed().await;
    app.post("/endpoints", &json!({ "id": "e", "url": "https://hooks.example.com/in" })).await.is(201);
    for host in FORBIDDEN {
        let url = format!("https://{host}/in");
        let answers = [
            app.post("/endpoints", &json!({ "url": url })).await,
            app.patch("/endpoints/e", &json!({ "url": url })).await,
        ];
        for answer in answers {
            assert_eq!(answer.invalid_field(), "url", "{url}");
        }
    }
    assert_eq!(app.all("/endpoints").await.len(), 1);
    assert_eq!(app.get("/endpoints/e").await.is(200)["url"], "https://hooks.example.com/in");
    for public in [
        "https://93.184.215.14/",
        "https://[2606:2800:21f:cb07:6820:80da:af6b:8b2c]/",
        "https://a.example:8443/x?y=1",
    ] {
        assert_eq!(app.post("/endpoints", &json!({ "url": public })).await.is(201)["url"], public);
    }
}

#[tokio::test]
async fn the_allow_list_opens_addresses_and_never_names_without_a_dot() {
    let server = TestServer::start_with(&[("ALLOW_ADDRESSES", "10.1.0.0/16,::1/128")]).await;
    let app = server.app().await;
    for (url, status) in [
        ("http://10.1.2.3/", 201),
        ("http://[::1]/", 201),
        ("http://10.2.0.1/", 422),
        ("http://127.0.0.1/", 422),
        ("http://localhost/", 422),
        ("http://intranet/", 422),
        ("http://[::ffff:10.2.0.1]/", 422),
    ] {
        assert_eq!(app.post("/endpoints", &json!({ "url": url })).await.status, status, "{url}");
    }
}

#[tokio::test]
async fn an_address_that_is_no_longer_allowed_is_not_dialled() {
    let mut server = TestServer::start().await;
    let receiver = crate::fixture::receiver(200).await;
    let app = server.app().await;
    let mut overrides = quick();
    overrides["retry"]["waits"] = json!([]);
    app.endpoint(&receiver.url("/hook"), json!({ "overrides": overrides })).await;
    server.node.stop().await;
    server.home.set("ALLOW_ADDRESSES", "");
    server.node = server.home.start().await;
    let mut app = app;
    app.api.address = server.node.client.address();
    let dead = app.until_is(&app.deliver().await, "dead").await;
    assert_eq!(dead["attempts"][0]["class"], "address_refused", "{dead:#}");
    assert_eq!(receiver.connections(), 0);
}

#[tokio::test]
async fn plain_http_needs_the_operator_s_word() {
    let server = TestServer::start_with(&[("HTTPS_ONLY", "true")]).await;
    let app = server.app().await;
    let own = server.by_its_key(&app).await;
    let plain = json!({ "url": "http://127.0.0.1:9/" });
    let opened = json!({ "url": "http://127.0.0.1:9/", "overrides": { "https_only": false } });
    assert_eq!(app.post("/endpoints", &plain).await.invalid_field(), "url");
    let refused = own.post("/endpoints", &opened).await.refused(403, "forbidden");
    assert_eq!(refused.field.as_deref(), Some("overrides.https_only"));
    let id = crate::fixture::text(&app.post("/endpoints", &opened).await.is(201)["id"]);
    let path = format!("/endpoints/{id}");

    let patched = own.patch(&path, &json!({ "overrides": { "timeout": "7s" } })).await.is(200);
    let expected = json!({ "https_only": false, "timeout": "7s" });
    assert_eq!(patched["overrides"], expected, "an app key leaves alone what is the operator's");
    let cleared = own.patch(&path, &json!({ "overrides": null })).await.is(200);
    assert_eq!(cleared["overrides"], json!({ "https_only": false }));
    own.patch(&path, &json!({ "overrides": { "https_only": true } })).await.refused(403, "forbidden");
    app.patch(&path, &json!({ "url": "https://127.0.0.1:9/", "overrides": null })).await.is(200);
    assert_eq!(own.patch(&path, &plain).await.invalid_field(), "url");
    assert_eq!(app.get(&path).await.is(200)["overrides"], Value::Null);
}

#[tokio::test]
async fn closing_plain_http_again_does_not_leave_an_endpoint_that_would_be_called() {
    let server = TestServer::start_with(&[("HTTPS_ONLY", "true")]).await;
    let app = server.app().await;
    let opened = json!({ "id": "e", "url": "http://127.0.0.1:9/", "overrides": { "https_only": false } });
    app.post("/endpoints", &opened).await.is(201);
    let refused = app.patch("/endpoints/e", &json!({ "overrides": null })).await;
    assert_eq!(refused.status, 422, "its URL would no longer be allowed: {}", refused.text());
}

#[tokio::test]
async fn overrides_are_bounded_by_who_sets_them() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let own = server.by_its_key(&app).await;
    let ask = async |by: &TestApp, overrides: Value| {
        by.post("/endpoints", &json!({ "url": "http://127.0.0.1:9/", "overrides": overrides })).await
    };
    ask(&own, json!({ "retry": { "waits": ["100ms", "1m"], "jitter": "none" }, "timeout": "5s" }))
        .await
        .is(201);
    assert_eq!(ask(&own, json!({ "timeout": "0s" })).await.invalid_field(), "overrides.timeout");
    assert_eq!(ask(&own, json!({ "timeout": "61s" })).await.invalid_field(), "overrides.timeout");
    let refused = ask(&own, json!({ "timeout": "900ms" })).await;
    assert!([403, 422].contains(&refused.status), "{}", refused.text());
    ask(&app, json!({ "timeout": "900ms" })).await.is(201);
    for (operators, field) in [
        (json!({ "headers": { "x-a": "1" } }), "overrides.headers.x-a"),
        (json!({ "retention": { "events": "1d" } }), "overrides.retention.events"),
    ] {
        assert_eq!(
            ask(&own, operators.clone()).await.refused(403, "forbidden").field.as_deref(),
            Some(field)
        );
        ask(&app, operators).await.is(201);
    }
}
