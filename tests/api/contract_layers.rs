//! Layers over a contract: a brand, a base, the app's overrides and the endpoint's.

use crate::{
    fixture::{TestApp, TestServer, WAIT_MAX, receiver, text},
    harness::{NodeFolder, ReceivedWebhook, wait_until},
};
use aws_lc_rs::hmac;
use serde_json::{Value, json};

const SECRET: &str = "whsec_sixteen bytes or more";

/// Whether the header `t=…,v1=…` signs `t`, a dot and the body, as ZeroFee's article has receivers verify it.
fn is_signed(receipt: &ReceivedWebhook, header: &str) -> bool {
    let value = receipt.header(header);
    let Some((t, hex)) = value.strip_prefix("t=").and_then(|rest| rest.split_once(",v1=")) else {
        return false;
    };
    let signature: Option<Vec<u8>> = (0..hex.len())
        .step_by(2)
        .map(|index| u8::from_str_radix(hex.get(index..index + 2)?, 16).ok())
        .collect();
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    let signed = [t.as_bytes(), b".", &receipt.body].concat();
    signature.is_some_and(|signature| hmac::verify(&key, &signed, &signature).is_ok())
}

async fn app_with(server: &TestServer, id: &str, more: Value) -> TestApp {
    let mut body = json!({ "id": id, "name": "A" });
    let Value::Object(more) = more else { panic!("fields of an app") };
    body.as_object_mut().unwrap().extend(more);
    server.admin.post("/v1/apps", &body).await.is(201);
    TestApp { id: id.into(), api: server.admin.clone() }
}

#[tokio::test]
async fn a_brand_renames_every_header_that_a_receiver_sees() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let app =
        app_with(&server, "acme", json!({ "contract": "zerofee", "overrides": { "brand": "Acme" } })).await;
    app.post("/endpoints", &json!({ "url": receiver.url("/acme"), "secret": SECRET })).await.is(201);
    let delivery = app.deliver().await;
    app.until_is(&delivery, "delivered").await;
    let receipt = &receiver.receipts_at("/acme")[0];
    assert!(is_signed(receipt, "x-acme-signature"), "{receipt:?}");
    assert_eq!(
        (receipt.header("x-acme-event"), receipt.header("user-agent")),
        ("payment.created", "Acme-Webhook/1.0")
    );
    assert!(receipt.headers.keys().all(|name| !name.contains("zerofee")), "{receipt:?}");

    let refused = app.patch("", &json!({ "overrides": { "brand": "Corner Bakery" } })).await;
    assert_eq!(refused.invalid_field(), "overrides.brand");
    let standard =
        app.patch("", &json!({ "contract": "standard", "overrides": { "brand": "Corner Bakery" } })).await;
    assert_eq!(standard.invalid_field(), "overrides", "the endpoint's secret is no secret of standard");
}

#[tokio::test]
async fn an_app_s_overrides_lie_under_those_of_all_its_endpoints_and_take_effect_at_once() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let app = app_with(&server, "a", json!({ "contract": "zerofee" })).await;
    let endpoint = async |id: &str, more: Value| {
        let mut body = json!({ "id": id, "url": receiver.url(&format!("/{id}")), "secret": SECRET });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        app.post("/endpoints", &body).await.is(201);
    };
    endpoint("plain", json!({})).await;
    endpoint("named", json!({ "contract": "bastionary" })).await;
    endpoint("own", json!({ "overrides": { "brand": "Own" } })).await;
    let headers = async || {
        let published = app.publish("x").await;
        for delivery in published["deliveries"].as_array().unwrap() {
            app.until_is(&text(&delivery["id"]), "delivered").await;
        }
        ["/plain", "/named", "/own"].map(|path| {
            let receipt = receiver.receipts_at(path).pop().unwrap();
            let signature = receipt.headers.keys().find(|name| name.ends_with("-signature")).unwrap().clone();
            assert!(is_signed(&receipt, &signature), "{receipt:?}");
            signature
        })
    };
    assert_eq!(headers().await, ["x-zerofee-signature", "x-bastionary-signature", "x-own-signature"]);
    let changed = app.patch("", &json!({ "overrides": { "brand": "Acme" } })).await.is(200);
    assert_eq!(changed["overrides"], json!({ "brand": "Acme" }));
    assert_eq!(headers().await, ["x-acme-signature", "x-acme-signature", "x-own-signature"]);
    app.patch("", &json!({ "overrides": null })).await.is(200);
    assert_eq!(headers().await, ["x-zerofee-signature", "x-bastionary-signature", "x-own-signature"]);
}

#[tokio::test]
async fn an_app_s_overrides_are_the_operator_s_and_are_checked_against_every_endpoint_first() {
    let server = TestServer::start().await;
    let app = app_with(&server, "a", json!({ "overrides": { "retry": { "waits": ["1s"] } } })).await;
    let own = server.by_its_key(&app).await;
    own.patch("", &json!({ "overrides": null })).await.refused(403, "forbidden");
    for (overrides, field) in [
        (json!({ "retry": { "wait": ["1s"] } }), "overrides.retry.wait"),
        (json!({ "timeout": "2m" }), "overrides.timeout"),
        (json!({ "name": "mine" }), "overrides.name"),
        (json!([]), "overrides"),
    ] {
        let made = json!({ "name": "B", "overrides": overrides });
        assert_eq!(server.admin.post("/v1/apps", &made).await.problem().field.as_deref(), Some(field));
        let refused = app.patch("", &json!({ "overrides": overrides })).await.problem();
        assert_eq!((refused.status, refused.field.as_deref()), (422, Some(field)), "{overrides}");
    }
    app.endpoint("http://127.0.0.1:9/", json!({ "id": "plain-http", "contract": "zerofee" })).await;
    let refused = app.patch("", &json!({ "overrides": { "https_only": true } })).await;
    let problem = refused.refused(422, "invalid");
    assert_eq!(problem.field.as_deref(), Some("overrides"));
    assert!(
        problem.detail.contains("does not suit the endpoint plain-http: url: must start with https"),
        "{problem:?}"
    );
    let kept = app.get("").await.is(200);
    assert_eq!(kept["overrides"], json!({ "retry": { "waits": ["1s"] } }), "nothing was changed");
    let body = json!({ "url": "http://127.0.0.1:9/", "overrides": { "retry": { "waits": ["2s"] } } });
    own.post("/endpoints", &body).await.is(201);
}

#[tokio::test]
async fn overrides_of_an_app_hold_after_a_restart() {
    let mut server = TestServer::start().await;
    let receiver = receiver(200).await;
    let mut app =
        app_with(&server, "a", json!({ "contract": "zerofee", "overrides": { "brand": "Acme" } })).await;
    app.post("/endpoints", &json!({ "url": receiver.url("/a"), "secret": SECRET })).await.is(201);
    assert_eq!(server.node.stop().await, Some(0));
    server.node = server.home.start().await;
    app.api.address = server.node.client.address();
    app.publish("x").await;
    wait_until("it is received", WAIT_MAX, async || receiver.count_at("/a") == 1).await;
    assert!(is_signed(&receiver.receipts_at("/a")[0], "x-acme-signature"));
}

#[tokio::test]
async fn an_app_has_the_id_prefix_of_its_contract_unless_it_gives_one() {
    let server = TestServer::start().await;
    for (id, more, prefix) in [
        ("mail", json!({ "contract": "sendnomi" }), "msg_"),
        ("given", json!({ "contract": "sendnomi", "id_prefix": "evt" }), "evt_"),
        ("over", json!({ "overrides": { "ids": { "event": "note" } } }), "note_"),
        ("usual", json!({}), "evt_"),
    ] {
        let app = app_with(&server, id, more).await;
        let published = app.publish("x").await;
        assert!(text(&published["id"]).starts_with(prefix), "{published}");
        app.get(&format!("/events/{}", text(&published["id"]))).await.is(200);
    }
    let mail = server.admin.get("/v1/apps/mail").await.is(200);
    assert_eq!(mail["id_prefix"], "msg");
    server.admin.patch("/v1/apps/mail", &json!({ "contract": null })).await.is(200);
    assert_eq!(server.admin.get("/v1/apps/mail").await.is(200)["id_prefix"], "msg", "fixed at creation");
}

#[tokio::test]
async fn a_contract_based_on_another_reaches_the_wire() {
    let folder = tempfile::tempdir().unwrap();
    let gold = "name = \"gold\"\nbased_on = \"acme\"\n[headers]\n\"X-{brand}-Tier\" = \"gold\"\n";
    let acme = "name = \"acme\"\nbased_on = \"zerofee\"\nbrand = \"Acme\"\n[headers]\n\"X-{brand}-Timestamp\" = \"\"\n";
    std::fs::write(folder.path().join("a-gold.toml"), gold).unwrap();
    std::fs::write(folder.path().join("b-acme.toml"), acme).unwrap();
    let server = TestServer::start_with(&[("CONTRACTS_DIR", folder.path().to_str().unwrap())]).await;
    let receiver = receiver(200).await;
    let app = app_with(&server, "a", json!({ "contract": "gold" })).await;
    app.post("/endpoints", &json!({ "url": receiver.url("/a"), "secret": SECRET })).await.is(201);
    app.until_is(&app.deliver().await, "delivered").await;
    let receipt = &receiver.receipts_at("/a")[0];
    assert!(is_signed(receipt, "x-acme-signature"), "{receipt:?}");
    assert_eq!((receipt.header("x-acme-tier"), receipt.header("x-acme-timestamp")), ("gold", ""));
}

#[tokio::test]
async fn a_wrong_contract_is_refused_at_the_start_with_file_field_and_what_is_allowed() {
    let cases: [(&[(&str, &str)], &str); 5] = [
        (
            &[("a.toml", "name = \"a\"\nbased_on = \"zerofe\"")],
            "a.toml: based_on: there is no contract `zerofe`; did you mean `zerofee`?",
        ),
        (
            &[("a.toml", "name = \"a\"\nbased_on = \"b\""), ("b.toml", "name = \"b\"\nbased_on = \"a\"")],
            "b.toml: based_on: goes in a circle: a, b, a",
        ),
        (
            &[("a.toml", "name = \"a\"\nbased_on = \"bastionary\"\n[health]\nwarning_after = \"4d\"")],
            "a.toml: health.warning_after: must be before `health.off_after_failing_for`, which is 3d",
        ),
        (
            &[("a.toml", "name = \"a\"\nbased_on = \"zerofee\"\nbrand = \"A B\"")],
            "a.toml: brand: must be letters, digits, - and _, without spaces",
        ),
        (
            &[("a.toml", "name = \"a\"\nbased_on = \"zerofee\"\n[states]\ndead = \"gone for good\"")],
            "a.toml: states.dead: must be 1 to 64 characters out of A-Z a-z 0-9 _ -",
        ),
    ];
    for (files, refusal) in cases {
        let mut home = NodeFolder::new();
        let folder = home.folder().join("contracts");
        std::fs::create_dir(&folder).unwrap();
        for (name, text) in files {
            std::fs::write(folder.join(name), text).unwrap();
        }
        home.set("CONTRACTS_DIR", folder.to_str().unwrap());
        let mut node = home.spawn(&[], &["serve"]);
        let code = node.exited().await.code();
        let said = node.log();
        assert!(code.is_some_and(|code| code == 1 || code == 2), "{code:?} {said}");
        assert!(said.contains(refusal), "{said}");
    }
}
