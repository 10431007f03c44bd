//! Certificates of an endpoint: the operator's to set, checked when they are written, shown without the key.

use crate::fixture::{TestServer, text};
use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};
use serde_json::{Value, json};

const URL: &str = "https://hooks.example.com/in";

struct Pair {
    certificate: String,
    key: String,
}

fn pair(name: &str, until: i32) -> Pair {
    let mut params = CertificateParams::new(vec!["posthaste.example".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = date_time_ymd(2001, 1, 1);
    params.not_after = date_time_ymd(until, 1, 1);
    let key = KeyPair::generate().unwrap();
    Pair { certificate: params.self_signed(&key).unwrap().pem(), key: key.serialize_pem() }
}

impl Pair {
    fn tls(&self) -> Value {
        json!({ "client_certificate": self.certificate, "client_key": self.key })
    }
}

#[tokio::test]
async fn certificates_are_shown_by_what_is_public_of_them_and_can_be_changed_and_taken_away() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let (ours, authority) = (pair("ours", 2999), pair("authority", 2998));
    let made = app.post("/endpoints", &json!({ "id": "e", "url": URL, "tls": ours.tls() })).await;
    let shown = made.is(201)["tls"].clone();
    assert!(text(&shown["client_certificate"]["subject"]).contains("CN=ours"), "{shown}");
    assert_eq!(shown["client_certificate"]["expires_at"], "2999-01-01T00:00:00.000Z");
    assert_eq!(text(&shown["client_certificate"]["fingerprint"]).len(), 64);
    assert_eq!(shown["ca"], json!([]));
    for answer in [made.text(), app.get("/endpoints/e").await.text(), app.get("/endpoints").await.text()] {
        assert!(
            !answer.contains("PRIVATE") && !answer.contains(ours.key.lines().nth(1).unwrap()),
            "{answer}"
        );
    }
    let patched = app.patch("/endpoints/e", &json!({ "tls": { "ca": authority.certificate } })).await.is(200);
    assert_eq!(patched["tls"]["client_certificate"], Value::Null, "replaced whole");
    assert!(text(&patched["tls"]["ca"][0]["subject"]).contains("CN=authority"));
    let entry = app.all("/audit?action=endpoint.changed").await.remove(0);
    assert_eq!(entry["detail"], json!({ "fields": ["tls"] }));
    let untouched = app.patch("/endpoints/e", &json!({ "description": "d" })).await.is(200);
    assert_eq!(untouched["tls"], patched["tls"]);
    assert_eq!(app.patch("/endpoints/e", &json!({ "tls": null })).await.is(200)["tls"], Value::Null);
    assert_eq!(app.get("/endpoints/e").await.is(200)["tls"], Value::Null);
}

#[tokio::test]
async fn what_cannot_be_used_is_refused_by_its_field_and_nothing_of_a_key_is_repeated() {
    let server = TestServer::start().await;
    let app = server.app().await;
    app.endpoint(URL, json!({ "id": "e" })).await;
    let (ours, other, expired) = (pair("ours", 2999), pair("other", 2999), pair("expired", 2002));
    let mismatched = json!({ "client_certificate": ours.certificate, "client_key": other.key });
    for (tls, field) in [
        (mismatched, "tls.client_key"),
        (json!({ "client_certificate": ours.certificate }), "tls.client_key"),
        (json!({ "client_key": ours.key }), "tls.client_certificate"),
        (json!({ "client_certificate": ours.key, "client_key": ours.key }), "tls.client_certificate"),
        (json!({ "client_certificate": ours.certificate, "client_key": 5 }), "tls.client_key"),
        (expired.tls(), "tls.client_certificate"),
        (json!({ "ca": "marker" }), "tls.ca"),
        (json!({}), "tls"),
        (json!("x"), "tls"),
    ] {
        for answer in [
            app.post("/endpoints", &json!({ "url": URL, "tls": tls })).await,
            app.patch("/endpoints/e", &json!({ "tls": tls })).await,
        ] {
            assert_eq!(answer.invalid_field(), field, "{}", answer.text());
            let body = ours.key.lines().nth(1).unwrap();
            assert!(!answer.text().contains(body) && !answer.text().contains("marker"));
        }
    }
    let unknown = app.patch("/endpoints/e", &json!({ "tls": { "certificate": "x" } })).await;
    assert_eq!(unknown.refused(422, "unknown_field").field.as_deref(), Some("tls.certificate"));
    let plain = json!({ "url": "http://127.0.0.1:9/", "tls": ours.tls() });
    assert_eq!(app.post("/endpoints", &plain).await.invalid_field(), "tls", "it would never be shown");
    assert_eq!(app.get("/endpoints/e").await.is(200)["tls"], Value::Null);
}

#[tokio::test]
async fn an_app_key_neither_sets_certificates_nor_leads_an_endpoint_with_them_elsewhere() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let own = server.by_its_key(&app).await;
    let ours = pair("ours", 2999);
    own.post("/endpoints", &json!({ "url": URL, "tls": ours.tls() })).await.refused(403, "forbidden");
    app.endpoint(URL, json!({ "id": "e", "tls": ours.tls() })).await;
    for patch in [
        json!({ "tls": null }),
        json!({ "tls": ours.tls() }),
        json!({ "url": "https://elsewhere.example.com/" }),
        json!({ "health_url": "https://elsewhere.example.com/" }),
    ] {
        own.patch("/endpoints/e", &patch).await.refused(403, "forbidden");
    }
    assert_eq!(own.patch("/endpoints/e", &json!({ "description": "d" })).await.is(200)["description"], "d");
    assert!(own.get("/endpoints/e").await.is(200)["tls"]["client_certificate"].is_object());
    app.patch("/endpoints/e", &json!({ "url": "https://elsewhere.example.com/" })).await.is(200);
    app.patch("/endpoints/e", &json!({ "tls": null })).await.is(200);
    own.patch("/endpoints/e", &json!({ "url": "https://back.example.com/" })).await.is(200);
}
