//! `data` reaches the receiver and the API's event views byte for byte.

use crate::{
    fixture::{HOOK, TestApp, TestServer, WAIT_MAX, receiver, text},
    harness::wait_until,
    raw_http::{RawConnection, head},
};
use serde_json::json;

/// JSON values that a parser and a writer would change.
fn odd_values() -> Vec<String> {
    let plain = [
        "null",
        "true",
        "0",
        "-0",
        "-0.0",
        "1.0",
        "1.10",
        "1E5",
        "1e+05",
        "1e400",
        "-1e-400",
        "12345678901234567890123",
        "0.1000000000000000055511151231257827",
        "\"\"",
        r#""\u00e9""#,
        r#""\/""#,
        r#""\u002f""#,
        r#""\ud83d\ude00""#,
        r#""\ud800""#,
        r#""\udfff\ud800""#,
        r#""\u0000""#,
        "\"\u{2028}\u{7f}é😀\"",
        "\"\u{fffe}\"",
        "[ ]",
        "{ }",
        "{\n\t\"b\" : 1.10 ,\r\n\"a\":\"x\"\n}",
        r#"{"a":1,"a":2}"#,
        r#"{"":{"":{}}}"#,
        r#"{"\u0061":1,"a":2}"#,
        r#"{"__proto__":1}"#,
        r#"{"z":1,"a":2,"m":3}"#,
        "[1,\n2 , 3]",
        r#""</script>""#,
    ];
    let mut values: Vec<String> = plain.map(str::to_owned).into();
    values.push(format!("\"{}\"", "x".repeat(60_000)));
    values.push(format!("{}{}", "[".repeat(128), "]".repeat(128)));
    values.push(format!("{}1{}", r#"{"a":"#.repeat(128), "}".repeat(128)));
    values.push(format!("[{}0]", "[],".repeat(1000)));
    values.push(format!("\"{}\"", "[{".repeat(500)));
    values
}

/// Returns the event's response unparsed: a parser might fail on its data.
async fn shown(app: &TestApp, id: &str) -> String {
    let mut wire = RawConnection::open(app.api.address).await;
    let path = app.path(&format!("/events/{id}"));
    assert!(wire.send(head("GET", &path, app.api.key.as_deref(), &[]).as_bytes()).await);
    let answer = wire.answer().await.unwrap();
    assert_eq!(answer.status, 200);
    answer.text()
}

#[tokio::test]
async fn data_is_sent_and_shown_byte_for_byte() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let app = server.app().await;
    app.endpoint(&receiver.url(HOOK), json!({})).await;
    let values = odd_values();
    for (number, value) in values.iter().enumerate() {
        let event = format!("{{ \"data\" :\t{value} ,\"id\":\"n{number}\", \"type\":\"odd.json\"}}");
        app.publish_raw(&event).await.is(202);
        let shown = shown(&app, &format!("n{number}")).await;
        assert!(shown.contains(&format!("\"data\":{value},")), "{value:.60} is shown as {shown:.200}");
    }
    wait_until("all arrive", WAIT_MAX, async || receiver.count_at(HOOK) >= values.len()).await;
    for (number, value) in values.iter().enumerate() {
        let receipts = receiver.receipts();
        let id = format!("n{number}");
        let receipt = receipts.iter().find(|receipt| receipt.id() == id).unwrap();
        let body = std::str::from_utf8(&receipt.body).unwrap();
        let start = format!("{{\"id\":\"{id}\",\"type\":\"odd.json\",\"timestamp\":\"");
        assert!(body.starts_with(&start), "{body:.200}");
        assert!(body.ends_with(&format!("\",\"data\":{value}}}")), "{value:.60} was sent as {body:.200}");
    }
}

#[tokio::test]
async fn a_batch_keeps_bytes_as_well() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let app = server.app().await;
    app.endpoint(&receiver.url(HOOK), json!({})).await;
    let values = odd_values();
    let events: Vec<String> =
        values.iter().map(|value| format!("{{\"type\":\"a\",\"data\": {value} }}")).collect();
    let body = format!("{{\"events\":[{}]}}", events.join(" , "));
    let answers = app.api.send("POST", &app.path("/events/batch"), &[], Some(body.as_bytes())).await.is(200);
    for (answer, value) in answers["data"].as_array().unwrap().iter().zip(&values) {
        assert_eq!(answer["status"], 202, "{value:.60}: {answer}");
        let shown = shown(&app, &text(&answer["event"]["id"])).await;
        assert!(shown.contains(&format!("\"data\":{value},")), "{value:.60} is shown as {shown:.200}");
    }
}

#[tokio::test]
async fn data_nested_deeper_than_128_is_refused_by_the_field() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let arrays = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let objects = |depth: usize| format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
    for deep in [arrays(129), objects(129), arrays(10_000), arrays(500_000), format!("[1,{}]", arrays(128))] {
        let refused =
            app.publish_raw(format!(r#"{{"type":"a","data":{deep}}}"#)).await.refused(400, "malformed");
        assert_eq!(refused.field.as_deref(), Some("data"));
    }
    app.publish_raw(format!(r#"{{"type":"a","data":{}}}"#, arrays(128))).await.is(202);
    let unclosed = format!(r#"{{"type":"a","data":{}"#, "[".repeat(500_000));
    app.publish_raw(unclosed).await.refused(400, "malformed");
    let metadata = format!(r#"{{"name":"a","metadata":{{"m":{}}}}}"#, arrays(5_000));
    server.admin.send("POST", "/v1/apps", &[], Some(metadata.as_bytes())).await.refused(400, "malformed");
}
