//! Signatures of received requests, verified by the official libraries of Standard Webhooks: Rust, npm and PyPI.

use crate::harness::{NodeFolder, ReceivedWebhook, TestReceiver, wait_until};
use base64::{Engine, prelude::BASE64_STANDARD};
use http::{HeaderMap, HeaderName, Method};
use serde_json::{Value, json};
use std::{
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

const WAIT_LIMIT: Duration = Duration::from_secs(30);

/// JSON that a careless sender would change on its way.
const ODD_JSON: [&str; 12] = [
    r#""é ü ß 漢字""#,
    r#""😀 \ud83d\ude00""#,
    "1.0",
    "1e5",
    "-0",
    "123456789012345678901234567890",
    "0.1000000000000000055511151231257827",
    "\"\u{2028}\u{2029}\"",
    "{ \"b\" : 1 ,\n\t\"a\":[ ] }",
    r#"{"a":1,"a":2}"#,
    r#""\u0000\u001f\/<script>&amp;""#,
    "null",
];

struct SignatureCase {
    secret: String,
    receipt: ReceivedWebhook,
    is_genuine: bool,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn official_libraries_verify_what_is_received_and_refuse_what_was_tampered_with() {
    let (home, receiver) = (NodeFolder::new(), TestReceiver::start().await);
    let node = home.start().await;
    let client = node.client.clone();
    client.make_app("a").await;
    let made = client.make_endpoint("a", "one", &receiver.url("/one"), Value::Null).await;
    let old = made["secret"].as_str().unwrap().to_owned();
    let publish = async |raw: &str| {
        let body = format!(r#"{{"type":"odd.thing","data":{raw}}}"#);
        client.send(Method::POST, "/v1/apps/a/events", &[], body).await.unwrap().expect(202);
    };
    for raw in ODD_JSON {
        publish(raw).await;
    }
    wait_until("all are received", WAIT_LIMIT, async || receiver.count_at("/one") == ODD_JSON.len()).await;
    let before = receiver.receipts_at("/one");
    let rotated =
        client.post("/v1/apps/a/endpoints/one/secret/rotate", &json!({ "overlap": "24h" })).await.expect(200);
    let new = rotated["secret"].as_str().unwrap().to_owned();
    assert_ne!(old, new);
    for raw in ODD_JSON {
        publish(raw).await;
    }
    wait_until("all are received", WAIT_LIMIT, async || receiver.count_at("/one") == 2 * ODD_JSON.len())
        .await;
    let after = receiver.receipts_at("/one").split_off(ODD_JSON.len());

    let bodies: Vec<String> =
        before.iter().map(|receipt| String::from_utf8(receipt.body.to_vec()).unwrap()).collect();
    for raw in ODD_JSON {
        assert!(
            bodies.iter().any(|body| body.ends_with(&format!("\"data\":{raw}}}"))),
            "{raw} in {bodies:?}"
        );
    }
    let mut cases = Vec::new();
    let mut add = |secret: &str, receipt: &ReceivedWebhook, is_genuine| {
        cases.push(SignatureCase { secret: secret.to_owned(), receipt: receipt.clone(), is_genuine });
    };
    for receipt in &before {
        add(&old, receipt, true);
        add(&new, receipt, false);
        add(&old, &tampered(receipt), false);
    }
    for receipt in &after {
        assert_eq!(receipt.header("webhook-signature").split(' ').count(), 2, "both sign during a rotation");
        add(&old, receipt, true);
        add(&new, receipt, true);
        add(&new, &tampered(receipt), false);
    }
    let expected: Vec<bool> = cases.iter().map(|case| case.is_genuine).collect();
    for (library, verdicts) in [("Rust", by_rust(&cases)), ("npm", by_npm(&cases)), ("PyPI", by_pypi(&cases))]
    {
        assert_eq!(verdicts, expected, "{library}");
    }
}

fn tampered(receipt: &ReceivedWebhook) -> ReceivedWebhook {
    let mut body = receipt.body.to_vec();
    let last = body.len() - 2;
    body[last] ^= 1;
    ReceivedWebhook { body: body.into(), ..receipt.clone() }
}

fn by_rust(cases: &[SignatureCase]) -> Vec<bool> {
    let verify = |case: &SignatureCase| {
        let header = |(name, value): (&String, &String)| {
            (HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap())
        };
        let headers: HeaderMap = case.receipt.headers.iter().map(header).collect();
        standardwebhooks::Webhook::new(&case.secret).unwrap().verify(&case.receipt.body, &headers).is_ok()
    };
    cases.iter().map(verify).collect()
}

fn by_npm(cases: &[SignatureCase]) -> Vec<bool> {
    let mut command = Command::new("node");
    command.arg(script("verify.mjs")).arg(installed());
    ask(command, cases)
}

fn by_pypi(cases: &[SignatureCase]) -> Vec<bool> {
    let mut command = Command::new(installed().join("venv/bin/python"));
    command.arg(script("verify.py"));
    ask(command, cases)
}

fn script(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/standardwebhooks", name].iter().collect()
}

fn installed() -> PathBuf {
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "target/check/standardwebhooks"].iter().collect();
    assert!(folder.join("installed").exists(), "the official libraries are not installed: run ./check once");
    folder
}

/// Sends a line of JSON for each case, and reads a word for each.
fn ask(mut command: Command, cases: &[SignatureCase]) -> Vec<bool> {
    let line = |case: &SignatureCase| {
        let body = BASE64_STANDARD.encode(&case.receipt.body);
        json!({ "secret": case.secret, "headers": case.receipt.headers, "body": body }).to_string() + "\n"
    };
    let lines: String = cases.iter().map(line).collect();
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writing = std::thread::spawn(move || stdin.write_all(lines.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap();
    assert!(output.status.success(), "{command:?}");
    let words = String::from_utf8(output.stdout).unwrap();
    words
        .lines()
        .map(|word| match word {
            "ok" => true,
            "bad" => false,
            _ => panic!("{word}"),
        })
        .collect()
}
