//! Exit codes and their messages.

use super::{AppSetup, CommandLine};
use crate::fixture::{TestServer, text};
use serde_json::json;

#[tokio::test]
async fn every_failure_has_its_code_and_says_what_is_wrong() {
    let server = TestServer::start().await;
    let furnished = AppSetup::new(&server).await;
    let delivered = furnished.delivered().await;
    let AppSetup { endpoint, mut cli, .. } = furnished;
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (line, code, words) in [
        (format!("deliveries retry {delivered}"), 1, "(409, "),
        ("endpoints create --url ftp://x".into(), 1, "url: "),
        ("deliveries list --status lost".into(), 1, "status"),
        ("deliveries list --from soon".into(), 2, "--from: \"soon\" is not allowed; give a time in RFC 3339"),
        ("endpoints update x --max-in-flight few".into(), 2, "a whole number"),
        (format!("endpoints update {endpoint}"), 2, "nothing to change"),
        (format!("endpoints update {endpoint} --unset url"), 2, "possible values"),
        ("apps create --id x".into(), 2, "--name"),
        ("apps create --name x --metadata oops".into(), 2, "--metadata: give NAME=VALUE"),
        ("deliveries lst".into(), 2, "list"),
        ("deliveries list --limit 0".into(), 2, "--limit"),
        ("deliveries list --server localhost".into(), 2, "must start with https:// or http://"),
        ("apps get ..".into(), 2, "no id"),
        ("publish order.paid --data {".into(), 2, "--data: not valid JSON"),
        ("publish order.paid".into(), 2, "which data?"),
        ("publish order.paid --data-file missing.json".into(), 2, "cannot read missing.json"),
        ("publish order.paid --data 1 --deliver-at soon".into(), 2, "--deliver-at"),
        ("publish webhook.mine --data 1".into(), 1, "type: "),
        ("deliveries get dlv_01jd2s3c8g001".into(), 3, "There is no such delivery. (404, not_found)"),
        ("endpoints list --app nobody".into(), 3, "There is no such app."),
        ("apps get a/../b".into(), 3, "There is no such app."),
        ("apps list --key wrong".into(), 4, "This key is not known"),
        (format!("apps list --server http://{nobody}"), 5, "connection refused"),
    ] {
        let said = cli.run(&line).await;
        assert_eq!((said.code, said.out.as_str()), (Some(code), ""), "{line}: {}", said.err);
        assert!(said.err.contains(words) && !said.err.contains("panicked"), "{line}: {}", said.err);
    }
    cli.unset("POSTHASTE_APP");
    let said = cli.run("deliveries list").await;
    assert!(said.err.contains("which app?") && said.code == Some(2), "{}", said.err);
    cli.unset("POSTHASTE_KEY");
    let said = cli.run("apps list").await;
    assert!(said.err.contains("there is no key") && said.code == Some(4), "{}", said.err);
}

#[tokio::test]
async fn a_narrow_key_gets_exit_code_4_and_the_error_forbidden() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let key = server.admin.post("/v1/keys", &json!({ "scope": "publish", "app_id": app.id })).await.is(201);
    let mut cli = CommandLine::in_app(&server, &app);
    cli.set("POSTHASTE_KEY", &text(&key["key"]));
    let said = cli.run("deliveries list").await;
    assert_eq!((said.code, said.err.contains("(403, forbidden)")), (Some(4), true), "{}", said.err);
    cli.text_of("publish order.paid --data 1").await;
    let said = cli.run("publish order.paid --id mine --data 1 --wait").await;
    assert_eq!((said.code, said.err.contains("mine is published, but")), (Some(4), true), "{}", said.err);
}

#[tokio::test]
async fn what_is_over_the_quota_may_be_tried_again() {
    let server = TestServer::start().await;
    let app = server.app().await;
    app.patch("", &json!({ "quota": { "events_per_second": 1 } })).await.is(200);
    let cli = CommandLine::in_app(&server, &app);
    let event = "{\"type\":\"a\",\"data\":1}\n";
    cli.write("events.jsonl", event.repeat(40));
    let said = cli.run("publish --batch events.jsonl").await;
    assert!(said.out.contains("quota is used up"), "{}", said.out);
    assert_eq!(said.code, Some(5), "{}", said.err);
}

#[tokio::test]
async fn a_wait_ends_at_its_limit() {
    let server = TestServer::start().await;
    let AppSetup { cli, .. } = AppSetup::new(&server).await;
    let said = cli.run("publish order.paid --data 1 --deliver-at +1h --wait=300ms").await;
    assert!(said.err.contains("not ended within 300ms"), "{}", said.err);
    assert!(said.ends(1).contains("pending"));
    let skipped = cli.run("publish nobody.cares --app other --data 1").await;
    assert_eq!(skipped.code, Some(3), "a flag beats the variable: {}", skipped.err);
}
