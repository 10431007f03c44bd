//! No secret may appear in a log, a metric, an error or the store, at any log level.

use crate::harness::{
    ADMIN_KEY, Behaviour, ConnectProxy, ENCRYPTION_KEY, NodeFolder, TestAnswer, TestClient, TestReceiver,
    wait_until,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use http::Method;
use serde_json::{Value, json};
use std::{path::Path, time::Duration};

const WAIT_LIMIT: Duration = Duration::from_secs(30);
const GIVEN_SECRET: &[u8] = b"marker-of-the-given-secret-00001";
const ROTATED_SECRET: &[u8] = b"marker-of-the-rotated-secret-001";
const HEADER_SECRET: &str = "marker-of-the-header-value";
const TYPO: &str = "marker-of-a-mistyped-secret";
const PROXY_PASSWORD: &str = "marker-of-the-proxy-password";

fn secret(bytes: &[u8]) -> String {
    format!("whsec_{}", BASE64_STANDARD.encode(bytes))
}

/// Runs every operation that could leak a secret: create, use, fail, rotate. Returns the answers and the secrets.
async fn use_secrets(
    client: &TestClient,
    receiver: &TestReceiver,
    identity: &Value,
) -> (Vec<TestAnswer>, Vec<String>) {
    let mut secrets = Vec::new();
    client.make_app("a").await;
    // The receiver speaks no TLS, so the request fails with its certificate loaded.
    let https = receiver.url("/tls").replacen("http:", "https:", 1);
    client.make_endpoint("a", "tls", &https, json!({ "tls": identity })).await;
    let more = json!({
        "secret": secret(GIVEN_SECRET), "headers": { "Authorization": format!("Bearer {HEADER_SECRET}") },
        "overrides": { "retry": { "waits": ["50ms"], "jitter": "none" } },
    });
    client.make_endpoint("a", "given", &receiver.url("/given"), more).await;
    let made = client.make_endpoint("a", "made", &receiver.url("/made"), Value::Null).await;
    let key = client.post("/v1/keys", &json!({ "app_id": "a", "scope": "app" })).await.expect(201);
    for text in [&made["secret"], &key["key"]] {
        secrets.push(text.as_str().unwrap().to_owned());
    }
    let app = client.with_key(key["key"].as_str().unwrap());
    receiver.behave("/given", Behaviour::Status(500));
    let published = app.publish("a", &json!({ "type": "t", "data": 1 })).await;
    wait_until("one is dead", WAIT_LIMIT, async || app.list("/v1/apps/a/dead-letters").await.len() == 1)
        .await;
    let rotation = json!({ "secret": secret(ROTATED_SECRET) });
    app.post("/v1/apps/a/endpoints/given/secret/rotate", &rotation).await.expect(200);
    receiver.behave("/given", Behaviour::Ok);
    app.publish("a", &json!({ "type": "t", "data": 2 })).await;
    wait_until("the next is delivered", WAIT_LIMIT, async || receiver.count_at("/given") == 3).await;

    let events = "/v1/apps/a/events";
    let endpoints = "/v1/apps/a/endpoints";
    let of_dead = format!("/v1/apps/a/deliveries/{}", published["deliveries"][0]["id"].as_str().unwrap());
    let mistyped = client.with_key(&format!("phk_{TYPO}"));
    let broken = format!("-----BEGIN PRIVATE KEY-----\n{TYPO}\n-----END PRIVATE KEY-----");
    let broken = json!({ "client_certificate": identity["client_certificate"], "client_key": broken });
    let answers = vec![
        mistyped.get(events).await,
        app.get("/v1/apps").await,
        app.post("/v1/keys", &json!({ "app_id": TYPO, "scope": TYPO })).await,
        app.post(endpoints, &json!({ "url": receiver.url("/x"), "secret": format!("whsec_{TYPO}") })).await,
        app.post(endpoints, &json!({ "url": receiver.url("/x"), "headers": { "host": TYPO } })).await,
        app.post(endpoints, &json!({ "url": receiver.url("/x"), "headers": { "x": format!("{TYPO}\n") } }))
            .await,
        app.send(Method::POST, endpoints, &[], format!("{{\"secret\":\"whsec_{TYPO}\",")).await.unwrap(),
        client.post(endpoints, &json!({ "url": https, "tls": broken })).await,
        client.get("/v1/apps/a/endpoints/tls").await,
        client.get("/v1/system").await,
        app.get("/v1/apps/a/endpoints/given").await,
        app.get(endpoints).await,
        app.get(&of_dead).await,
        client.get("/v1/keys").await,
        client.get("/metrics").await,
        client.get("/readyz").await,
    ];
    (answers, secrets)
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

fn search(folder: &Path, markers: &[Vec<u8>], hits: &mut Vec<String>) -> usize {
    let mut searched = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            searched += search(&path, markers, hits);
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        searched += bytes.len();
        for marker in markers.iter().filter(|marker| contains(&bytes, marker)) {
            hits.push(format!("{}: {}", path.display(), String::from_utf8_lossy(marker)));
        }
    }
    searched
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_appears_in_a_log_a_metric_an_error_or_the_store() {
    let (mut home, receiver) = (NodeFolder::new(), TestReceiver::start().await);
    let tunnel = ConnectProxy::start("127.0.0.1:0").await;
    home.set("LOG_LEVEL", "trace");
    home.set("PROXY", &format!("http://user:{PROXY_PASSWORD}@{}", tunnel.address));
    let key = rcgen::generate_simple_self_signed(vec!["posthaste".to_owned()]).unwrap();
    let identity =
        json!({ "client_certificate": key.cert.pem(), "client_key": key.signing_key.serialize_pem() });
    let mut node = home.start().await;
    let (answers, made) = use_secrets(&node.client, &receiver, &identity).await;
    let credentials = BASE64_STANDARD.encode(format!("user:{PROXY_PASSWORD}"));
    assert!(tunnel.heads().iter().all(|head| head.contains(&credentials)) && !tunnel.heads().is_empty());
    assert_eq!(receiver.receipts_at("/given")[0].header("authorization"), format!("Bearer {HEADER_SECRET}"));
    node.kill().await;
    let mut markers: Vec<Vec<u8>> = [ADMIN_KEY, ENCRYPTION_KEY, HEADER_SECRET, TYPO].map(Into::into).to_vec();
    markers.push(BASE64_STANDARD.decode(ENCRYPTION_KEY).unwrap());
    markers.extend([PROXY_PASSWORD.into(), credentials.into()]);
    let der = key.signing_key.serialize_der();
    // The secret part of the key, without the common prefix of its kind; and a line of its PEM.
    markers.push(der[36..68].to_vec());
    markers.push(key.signing_key.serialize_pem().lines().nth(2).unwrap().into());
    for bytes in [GIVEN_SECRET, ROTATED_SECRET] {
        markers.push(bytes.to_vec());
        markers.push(BASE64_STANDARD.encode(bytes).into());
    }
    for text in &made {
        let text = text.trim_start_matches("whsec_");
        markers.push(text.into());
        markers.extend(BASE64_STANDARD.decode(text).ok());
    }

    let mut hits = Vec::new();
    // The write-ahead log has every page ever written, because the kill prevented a checkpoint.
    let searched = search(home.folder(), &markers, &mut hits);
    for answer in &answers {
        let is_hit = |marker: &&Vec<u8>| contains(&answer.body, marker);
        hits.extend(markers.iter().find(is_hit).map(|_| format!("{}: {}", answer.status, answer.text())));
    }
    println!("searched {searched} bytes and {} answers for {} markers", answers.len(), markers.len());
    assert!(hits.is_empty(), "{hits:#?}");

    // The control: text that is no secret is found, so the search works.
    let mut found = Vec::new();
    search(home.folder(), &[b"sample-of-nothing".to_vec(), b"/given".to_vec()], &mut found);
    assert!(found.iter().all(|hit| hit.ends_with("/given")) && !found.is_empty(), "{found:?}");
}
