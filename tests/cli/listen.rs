//! `posthaste listen`: verifies requests of a real server, answers as configured, and deletes its endpoint. No request can
//! control the terminal or exhaust its memory.

use crate::{
    command_output::{listening_at, run, url},
    harness::{ADMIN_KEY, NodeFolder, TestClient, TestNode, wait_for, wait_until},
};
use http::Method;
use serde_json::{Value, json};
use std::{net::SocketAddr, time::Duration};

const WAIT_LIMIT: Duration = Duration::from_secs(20);
const SECRET: &str = "whsec_AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";

async fn listening(home: &NodeFolder, args: &[&str]) -> (TestNode, SocketAddr) {
    let node = home.spawn(&[], &[&["listen", "--port", "0"], args].concat());
    let address = wait_for("it listens", WAIT_LIMIT, async || listening_at(&node.log())).await;
    (node, address)
}

async fn until_says(node: &TestNode, what: &str) {
    wait_until(what, WAIT_LIMIT, async || node.log().contains(what)).await;
}

#[tokio::test]
async fn with_a_key_it_makes_an_endpoint_verifies_and_deletes_it_at_the_end() {
    let home = NodeFolder::new();
    let node = home.start().await;
    node.client.make_app("shop").await;
    let server = url(&node);
    let flags = ["--app", "shop", "--events", "order.*,refund.made", "--server", &server, "--key", ADMIN_KEY];
    let (mut listen, _) = listening(&home, &flags).await;
    let endpoints = node.client.list("/v1/apps/shop/endpoints").await;
    assert_eq!(endpoints[0]["event_types"], json!(["order.*", "refund.made"]));
    node.client
        .publish("shop", &json!({ "type": "order.paid", "data": { "n": 1.50, "esc": "\u{1b}[2J\u{202e}" } }))
        .await;
    node.client.publish("shop", &json!({ "type": "other.type", "data": 1 })).await;
    until_says(&listen, "verified (contract standard, signed 0 s ago)").await;
    until_says(&listen, "\"n\": 1.5").await;
    assert_eq!(listen.stop().await, Some(0));
    let log = listen.log();
    assert!(log.contains("POST /  answered 200") && log.contains("webhook-id: "), "{log}");
    assert!(log.contains("received: 1, verified: 1") && log.contains("deleted the endpoint"), "{log}");
    assert!(!log.contains(['\u{1b}', '\u{202e}']), "{log:?}");
    assert_eq!(node.client.list("/v1/apps/shop/endpoints").await, Vec::<Value>::new());
}

#[tokio::test]
async fn it_answers_with_the_given_statuses_prints_json_lines_and_ends_after_the_count() {
    let home = NodeFolder::new();
    let node = home.start().await;
    node.client.make_app("shop").await;
    let statuses = [
        "--secret",
        SECRET,
        "--status",
        "500,503,201",
        "--body",
        "thanks",
        "--delay",
        "10ms",
        "--json",
        "--count",
        "3",
    ];
    let (mut listen, address) = listening(&home, &statuses).await;
    let overrides = json!({ "retry": { "waits": ["100ms", "100ms", "100ms"], "jitter": "none" } });
    let more = json!({ "secret": SECRET, "overrides": overrides });
    node.client.make_endpoint("shop", "hook", &format!("http://{address}/in?x=1"), more).await;
    let published =
        node.client.publish("shop", &json!({ "type": "order.paid", "data": { "n": 100.0 } })).await;
    assert_eq!(listen.exited().await.code(), Some(0), "{}", listen.log());
    let log = listen.log();
    let lines: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let answered: Vec<_> =
        lines.iter().map(|line| (line["status"].as_u64(), line["verified"].as_bool())).collect();
    assert_eq!(
        answered,
        [(Some(500), Some(true)), (Some(503), Some(true)), (Some(201), Some(true))],
        "{log}"
    );
    let first = &lines[0];
    assert_eq!(
        (&first["method"], &first["path"], &first["mismatch"]),
        (&json!("POST"), &json!("/in?x=1"), &Value::Null)
    );
    assert_eq!((&first["body"]["type"], &first["body"]["id"]), (&json!("order.paid"), &published["id"]));
    assert!(log.contains(r#""data":{"n":100.0}"#), "numbers stay as they are: {log}");
    let id = published["deliveries"][0]["id"].as_str().unwrap().to_owned();
    let client = &node.client;
    wait_until("delivered", WAIT_LIMIT, async || client.delivery("shop", &id).await["status"] == "delivered")
        .await;
}

#[tokio::test]
async fn every_contract_is_verified_by_its_own_scheme() {
    let home = NodeFolder::new();
    let node = home.start().await;
    node.client.make_app("shop").await;
    for contract in ["standard", "sendnomi", "zerofee", "bastionary", "orientedos", "simpaisa"] {
        let (mut listen, address) =
            listening(&home, &["--secret", SECRET, "--contract", contract, "--count", "1"]).await;
        let more = json!({ "secret": SECRET, "contract": contract, "overrides": { "https_only": false },
            "event_types": [contract] });
        node.client.make_endpoint("shop", contract, &format!("http://{address}/"), more).await;
        node.client.publish("shop", &json!({ "type": contract, "data": { "n": 1 } })).await;
        assert_eq!(listen.exited().await.code(), Some(0), "{}", listen.log());
        let verified = format!("verified (contract {contract}");
        assert!(
            listen.log().contains(&verified) && !listen.log().contains("not verified"),
            "{}",
            listen.log()
        );
    }
}

#[tokio::test]
async fn unverifiable_requests_are_refused_and_explained_and_hostile_ones_do_no_harm() {
    let home = NodeFolder::new();
    let (mut listen, address) = listening(&home, &["--secret", SECRET, "--status", "/fine=204"]).await;
    let client = TestClient::new(address, "");
    let send = async |path: &str, headers: &[(&str, &str)], body: Vec<u8>| {
        client.send(Method::POST, path, headers, body).await.unwrap().status
    };
    assert_eq!(send("/", &[], b"{}".to_vec()).await, 401);
    until_says(&listen, "the header webhook-signature is missing or empty").await;
    let foreign = [("x-zerofee-signature", "t=1,v1=00"), ("x-odd", "a\u{9b}b")];
    assert_eq!(send("/", &foreign, b"\xff\xfe not text".to_vec()).await, 401);
    until_says(&listen, "where the contract zerofee has its signatures").await;
    until_says(&listen, "bytes that are no text").await;
    assert_eq!(send("/fine", &[], vec![b' '; 1000]).await, 204, "told so, whatever it is");
    // The server may close the connection before all of the body is sent.
    let huge = TestClient::new(address, "").send(Method::POST, "/", &[], vec![b'x'; 9 << 20]).await;
    assert!(huge.as_ref().map_or(413, |answer| answer.status) == 413, "{huge:?}");
    until_says(&listen, "has more than 8388608 bytes").await;
    assert_eq!(send("/%1b%5b2J", &[], b"\x1b[2J plain".to_vec()).await, 401);
    until_says(&listen, "\\u{1b}[2J plain").await;
    assert_eq!(listen.stop().await, Some(0));
    assert!(!listen.log().contains(['\u{1b}', '\u{9b}']), "{:?}", listen.log());
    assert!(listen.log().contains("received: 4, verified: 0"), "{}", listen.log());
}

#[tokio::test]
async fn invalid_arguments_are_refused_before_it_listens() {
    for (args, said) in [
        (vec!["listen", "--status", "99"], "from 200 to 599"),
        (vec!["listen", "--events", "a.*"], "--app"),
        (vec!["listen", "--delay", "soon"], "for example"),
    ] {
        let refused = run(&args).await.ended(2);
        assert!(refused.err.contains(said), "{refused:?}");
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let refused = run(&["listen", "--port", &port]).await.ended(1);
    assert!(refused.err.contains("cannot listen on"), "{refused:?}");
    let unknown = run(&["listen", "--port", "0", "--contract", "zerofe"]).await.ended(2);
    assert!(unknown.err.contains("did you mean `zerofee`?"), "{unknown:?}");
}
