//! zerofee: sorted bodies as Python writes them, `t=…,v1=…`, and an id of its own for every attempt.

use crate::{
    article_receiver::ArticleReceiver,
    fixture::{DATA, Fixture, Published, started},
};
use serde_json::{Value, json};
use std::{
    io::Write,
    process::{Command, Stdio},
};

const SECRET: &str = "whsec_a text as it is, é included";

/// Hard cases of sorting and escaping: keys beyond the BMP, duplicates, control characters, a pair of escapes.
const ODD: &str = r#"{"😀":1,"￿":2,"dup":{"b":1},"dup":{"b":2,"a":1E+5},"\u007f":"\u0000\b\f\n\r\t\"\\\/","A":"","a":[],"é":{},"ß":"\ud83d\ude00"}"#;

/// Script by which Python itself writes the canonical form, with numbers unchanged.
const SCRIPT: &str = r#"
import json, re, sys
event = json.load(sys.stdin)
keep = lambda number: f"\ue000{number}\ue000"
event["data"] = json.loads(event["data"], parse_float=keep, parse_int=keep)
body = json.dumps(event, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
sys.stdout.write(re.sub(r'"\\ue000(.*?)\\ue000"', r"\1", body))
"#;

fn as_python_writes_it(event_type: &str, published: &Published, data: &str) -> String {
    let created_at = format!("{}Z", &published.created_at[..19]);
    let event = json!({ "id": published.id, "type": event_type, "created_at": created_at, "data": data });
    let mut python = Command::new("python3");
    python.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut python = python.spawn().unwrap();
    python.stdin.take().unwrap().write_all(event.to_string().as_bytes()).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

async fn is_delivered_to(program: &str) {
    let article = ArticleReceiver::start(program, SECRET).await;
    let fixture = Fixture::start("zerofee", Value::Null).await;
    fixture.two_endpoints(&article, SECRET).await;

    let mut all = Vec::new();
    for data in [DATA, ODD, "[1.0]", "\"é\""] {
        let published = fixture.publish("good.event", None, data).await;
        let delivered = fixture.until(&published.delivery, "delivered").await;
        all.push((published, delivered, data));
    }
    for (request, (published, delivered, data)) in article.requests("/hook", 4).await.iter().zip(&all) {
        assert!(request.accepted, "{program}: {}", request.why);
        assert_eq!(request.body, as_python_writes_it("good.event", published, data), "{program}");
        assert!(published.id.starts_with("evt_") && request.parsed["id"] == *published.id);
        let attempt = delivered["attempts"][0]["id"].as_str().unwrap();
        assert!(attempt.starts_with("del_"), "{attempt}");
        let (_, t) = started(delivered, 0);
        let signature = request.header("x-zerofee-signature");
        assert!(signature.starts_with(&format!("t={t},v1=")), "{signature}");
        request.must_have(&[
            ("content-type", "application/json"),
            ("user-agent", "ZeroFee-Webhook/1.0"),
            ("x-zerofee-event", "good.event"),
            ("x-zerofee-delivery", attempt),
            ("x-zerofee-timestamp", &t),
            ("x-zerofee-signature", signature),
        ]);
    }

    let published = fixture.publish("bad.event", None, DATA).await;
    let dead = fixture.until(&published.delivery, "dead").await;
    let requests = article.requests("/answer/500", 3).await;
    for (i, request) in requests.iter().enumerate() {
        assert!(request.accepted, "{program}: attempt {i}: {}", request.why);
        assert_eq!(request.body, requests[0].body);
        assert_eq!(
            request.header("x-zerofee-delivery"),
            dead["attempts"][i]["id"],
            "the id of its row in the log"
        );
        assert_eq!(request.header("x-zerofee-timestamp"), started(&dead, i).1);
        let others = requests
            .iter()
            .filter(|other| other.header("x-zerofee-delivery") == request.header("x-zerofee-delivery"));
        assert_eq!(others.count(), 1, "new for every attempt");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zerofee_is_accepted_by_its_python_receiver() {
    is_delivered_to("zerofee.py").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zerofee_is_accepted_by_its_node_receiver() {
    is_delivered_to("zerofee.mjs").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zerofee_is_accepted_by_its_go_receiver() {
    is_delivered_to("zerofee.go").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zerofee_is_accepted_by_its_php_receiver() {
    is_delivered_to("zerofee.php").await;
}
