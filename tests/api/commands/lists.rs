//! Lists print the requested number of rows, independent of the API's pages.

use super::CommandLine;
use crate::fixture::TestServer;
use serde_json::Value;

async fn cli_with_events(server: &TestServer, count: usize) -> CommandLine {
    let app = server.app().await;
    let cli = CommandLine::in_app(server, &app);
    let line = |n| format!("{{\"type\":\"order.paid\",\"id\":\"order-{n}\",\"data\":{n}}}\n");
    cli.write("events.jsonl", (0..count).map(line).collect::<String>());
    let output = cli.text_of("publish --batch events.jsonl").await;
    assert_eq!(output, format!("{count} published, 0 published before, 0 refused\n"));
    cli
}

fn ids(page: &Value) -> Vec<&str> {
    page["data"].as_array().unwrap().iter().map(|event| event["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_list_has_as_many_rows_as_were_asked_for_and_can_be_gone_on_with() {
    let server = TestServer::start().await;
    let cli = cli_with_events(&server, 300).await;
    let said = cli.run("events list").await;
    assert!(said.err.starts_with("there is more: --all, or --cursor "), "{}", said.err);
    assert_eq!(said.ends(0).lines().count(), 1 + 50);
    assert_eq!(cli.text_of("events list --limit 260").await.lines().count(), 1 + 260);
    let said = cli.run("events list --all").await;
    assert_eq!(said.err, "");
    let out = said.ends(0);
    let width = out.lines().map(|line| line.find("order.paid")).collect::<std::collections::BTreeSet<_>>();
    assert_eq!((out.lines().count(), width.len()), (1 + 300, 2), "one column, and the heading: {width:?}");

    let whole = cli.json("events list --all").await;
    assert_eq!((ids(&whole).len(), &whole["next_cursor"]), (300, &Value::Null));
    let first = cli.json("events list --limit 170").await;
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = cli.json(&format!("events list --all --cursor {cursor}")).await;
    assert_eq!([ids(&first), ids(&rest)].concat(), ids(&whole));
    let refused = cli.run(&format!("events list --event-type other --cursor {cursor}")).await;
    assert_eq!(refused.code, Some(1), "a cursor belongs to its filter: {}", refused.err);
}

#[tokio::test]
async fn an_empty_list_is_noted_on_standard_error() {
    let server = TestServer::start().await;
    let cli = cli_with_events(&server, 1).await;
    let said = cli.run("deadletters list").await;
    assert_eq!((said.err.as_str(), said.out.as_str(), said.code), ("no dead-letters\n", "", Some(0)));
    assert_eq!(cli.json("deadletters list").await, serde_json::json!({ "data": [], "next_cursor": null }));
}

#[tokio::test]
async fn a_closed_output_stops_the_list_without_an_error() {
    let server = TestServer::start().await;
    let cli = cli_with_events(&server, 1000).await;
    let line = format!("'{}' events list --all --json | head -c 10", env!("CARGO_BIN_EXE_posthaste"));
    let output = cli.command("bash").args(["-c", &line]).output().await.unwrap();
    assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"{\"data\":[{"[..], &b""[..]));
}
