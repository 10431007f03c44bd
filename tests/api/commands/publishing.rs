//! `posthaste publish`: unchanged bytes from any source, a single event or a file of them.

use super::{AppSetup, CommandLine};
use crate::{
    fixture::{HOOK, TestServer, WAIT_MAX},
    harness::wait_for,
};
use serde_json::{Value, json};

/// Data that no serialiser would write like this.
const ODD: &str = r#"{ "b" : 1.10, "a":"\u00e9\/é", "big": 12345678901234567890123, "a": 1 }"#;

#[tokio::test]
async fn data_reaches_the_receiver_byte_for_byte_from_a_flag_a_file_and_standard_input() {
    let server = TestServer::start().await;
    let AppSetup { cli, receiver, .. } = AppSetup::new(&server).await;
    cli.write("odd.json", format!("{ODD}\n"));
    cli.write("odd.jsonl", format!("{{\"type\":\"odd.happened\",\"data\":{ODD}}}\n"));
    for args in [
        &["publish", "odd.happened", "--data", ODD][..],
        &["publish", "odd.happened", "--data-file", "odd.json"],
        &["publish", "odd.happened", "-"],
        &["publish", "--batch", "odd.jsonl"],
    ] {
        let before = receiver.count_at(HOOK);
        cli.run_with(args, ODD.as_bytes()).await.ends(0);
        let receipt =
            wait_for("it arrives", WAIT_MAX, async || receiver.receipts_at(HOOK).get(before).cloned()).await;
        let body = String::from_utf8(receipt.body.to_vec()).unwrap();
        assert!(body.contains(ODD), "{args:?}: {body}");
    }
}

#[tokio::test]
async fn every_field_of_an_event_can_be_given_and_repeating_publishes_nothing() {
    let server = TestServer::start().await;
    let AppSetup { app, cli, receiver: _receiver, .. } = AppSetup::new(&server).await;
    let line = "publish order.paid --id order-7 --event-key order --created-at 2026-01-01T00:00:00Z --deliver-at +2h --data 7";
    // `deliver_at` differs from one call to the next, which makes it another event.
    let event = cli.json(line).await;
    assert_eq!((&event["id"], &event["created_at"]), (&json!("order-7"), &json!("2026-01-01T00:00:00.000Z")));
    let stored = app.get("/events/order-7").await.is(200);
    assert_eq!((&stored["key"], stored["deliver_at"].is_string()), (&json!("order"), true));
    let other = cli.run("publish order.paid --id order-7 --data 8").await;
    assert_eq!((other.code, other.err.contains("(409, ")), (Some(1), true), "{}", other.err);
    for flags in ["--id order-8", "--idempotency-key once"] {
        let line = format!("publish order.paid {flags} --data 8");
        let first = cli.json(&line).await;
        let again = cli.run(&format!("{line} --json")).await;
        assert!(again.err.contains("published before"), "{}", again.err);
        assert_eq!(serde_json::from_str::<Value>(&again.ends(0)).unwrap(), first);
    }
}

#[tokio::test]
async fn a_file_is_published_in_batches_and_each_refused_line_is_named() {
    let server = TestServer::start().await;
    let AppSetup { app, cli, receiver: _receiver, .. } = AppSetup::new(&server).await;
    let good = "{\"type\":\"order.paid\",\"data\":1}\n";
    let file = format!("{}{{\"type\":\"order paid\",\"data\":1}}\n\n{good}", good.repeat(1500));
    cli.write("events.jsonl", &file);
    let said = cli.run("publish --batch events.jsonl").await;
    assert!(
        said.out.starts_with("1501 published, 0 published before, 1 refused\nline 1501  type: "),
        "{}",
        said.out
    );
    assert_eq!((said.code, said.err.as_str()), (Some(1), "posthaste: 1 events were refused\n"));
    assert_eq!(app.all("/events?limit=250").await.len(), 1501);

    let said = cli.run_with(&["publish", "--batch", "-", "--json"], file.as_bytes()).await;
    let answers: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((said.code, answers["data"].as_array().unwrap().len()), (Some(1), 1502));
    assert_eq!(answers["data"][1500]["problem"]["field"], "type");

    let before = app.all("/events?limit=250").await.len();
    let said = cli.run_with(&["publish", "--batch", "-"], format!("{good}{{\n").as_bytes()).await;
    assert!(said.err.contains("line 2: not valid JSON"), "{}", said.err);
    assert_eq!((said.code, app.all("/events?limit=250").await.len()), (Some(2), before), "nothing was sent");
}

#[tokio::test]
async fn an_event_without_subscribers_is_published_and_reported_as_such() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let cli = CommandLine::in_app(&server, &app);
    let said = cli.run("publish order.paid --data 1").await;
    assert_eq!((said.err.as_str(), said.code), ("no endpoint wanted it\n", Some(0)));
    assert_eq!(cli.json("publish order.paid --data 1 --wait").await["deliveries"], json!([]));
}
