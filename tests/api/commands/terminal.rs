//! Behaviour at a terminal: questions, width, hidden input, and protection from control sequences of a server. The
//! terminals here are made by script(1).

use super::{AppSetup, CommandLine, RunOutput};
use crate::{
    fixture::{HOOK, TestServer, WAIT_MAX, receiver, reply, text},
    harness::wait_for,
};
use serde_json::{Value, json};
use std::process::Stdio;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Runs a shell command at a terminal 60 characters wide. Once `prompt` is there, `typed` is typed.
async fn at_a_terminal(cli: &CommandLine, line: &str, prompt: &str, typed: &str) -> RunOutput {
    let line = format!(
        "stty cols 60 && {}",
        line.replace("posthaste ", &format!("{} ", env!("CARGO_BIN_EXE_posthaste")))
    );
    let mut command = cli.command("script");
    command.args(["-q", "-e", "-c", &line, "/dev/null"]).env("SHELL", "/bin/bash").env("TERM", "xterm");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    let mut is_typed = prompt.is_empty();
    let read = async {
        loop {
            let count = output.read(&mut buffer).await.unwrap_or_default();
            if count == 0 {
                break;
            }
            seen.extend_from_slice(&buffer[..count]);
            if !is_typed && String::from_utf8_lossy(&seen).contains(prompt) {
                is_typed = true;
                input.write_all(typed.as_bytes()).await.unwrap();
            }
        }
    };
    tokio::time::timeout(WAIT_MAX, read).await.expect("it ends");
    assert!(is_typed, "{prompt:?} was never asked: {}", String::from_utf8_lossy(&seen));
    let status = child.wait().await.unwrap();
    let out = String::from_utf8(seen).unwrap().replace('\r', "");
    RunOutput { code: status.code(), out, err: String::new() }
}

#[tokio::test]
async fn irreversible_commands_ask_first_and_do_nothing_without_a_terminal() {
    let server = TestServer::start().await;
    let furnished = AppSetup::new(&server).await;
    let delivery = furnished.delivered().await;
    let AppSetup { app, endpoint, cli, .. } = furnished;
    let event = text(&app.delivery(&delivery).await["event_id"]);
    let key = text(&server.admin.post("/v1/keys", &json!({ "scope": "admin" })).await.is(201)["id"]);
    for line in [
        format!("apps delete {}", app.id),
        format!("endpoints delete {endpoint}"),
        format!("events erase {event}"),
        format!("deliveries delete {delivery}"),
        format!("keys revoke {key}"),
    ] {
        let said = cli.run(&line).await;
        assert!(said.err.contains("There is nobody to ask; if so, give --yes."), "{line}: {}", said.err);
        assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{line}");
    }
    let detail = cli.json(&format!("events get {event}")).await;
    assert_eq!((&detail["data_erased"], detail["deliveries"].as_array().unwrap().len()), (&json!(false), 1));

    let line = format!("posthaste endpoints delete {endpoint}");
    let said = at_a_terminal(&cli, &line, "[y/N] ", "n\n").await;
    assert!(said.out.contains("nothing was done"), "{}", said.out);
    assert_eq!(said.code, Some(1));
    app.get(&format!("/endpoints/{endpoint}")).await.is(200);
    at_a_terminal(&cli, &line, "[y/N] ", "y\n").await.ends(0);
    app.get(&format!("/endpoints/{endpoint}")).await.is(404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_of_many_asks_first_and_shows_its_progress() {
    let server = TestServer::start().await;
    let AppSetup { cli, receiver: _receiver, .. } = AppSetup::new(&server).await;
    cli.write("events.jsonl", "{\"type\":\"a\",\"data\":1}\n".repeat(1001));
    cli.text_of("publish --batch events.jsonl").await;
    wait_for("all are delivered", WAIT_MAX * 4, async || {
        let count = cli.json("replay start --status delivered --dry-run").await;
        (count["total"] == 1001).then_some(())
    })
    .await;
    let said = cli.run("replay start --status delivered").await;
    assert!(said.err.contains("1001 deliveries will be sent. Go on?"), "{}", said.err);
    assert_eq!(said.code, Some(2));
    assert_eq!(cli.json("replay list").await["data"], json!([]));
    let line = "posthaste replay start --status delivered --per-second 2000 --watch";
    let drawn = at_a_terminal(&cli, line, "[y/N] ", "y\n").await.ends(0);
    assert!(drawn.contains("/1001") && drawn.contains(" s left"), "{drawn}");
    assert!(
        drawn.trim_end().lines().last().unwrap().contains("finished: 1001 of 1001 replayed, 0 refused"),
        "{drawn}"
    );
    let plain = cli.text_of("replay start --status delivered --to 2020-01-01T00:00:00Z --watch").await;
    assert!(!plain.contains('\x1b') && plain.ends_with("a second\n"), "{plain}");
}

#[tokio::test]
async fn lines_are_cut_to_the_terminal_and_nowhere_else() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let long = format!("https://hooks.example/{}", "x".repeat(100));
    app.endpoint(&long, json!({})).await;
    let cli = CommandLine::in_app(&server, &app);
    let cut = at_a_terminal(&cli, "posthaste endpoints list", "", "").await.ends(0);
    assert!(cut.lines().all(|line| line.chars().count() <= 60) && cut.contains('…'), "{cut}");
    assert!(cli.text_of("endpoints list").await.contains(&long));
}

#[tokio::test]
async fn a_typed_key_is_not_shown() {
    let server = TestServer::start().await;
    let mut cli = CommandLine::at(&server);
    let file = cli.file("p.toml");
    cli.set("POSTHASTE_PROFILE_FILE", file.to_str().unwrap());
    let key = "phk_never-to-be-seen-00000000001";
    let said =
        at_a_terminal(&cli, "posthaste profile set default", "Key for default: ", &format!("{key}\n")).await;
    assert!(!said.out.contains("never-to-be-seen"), "{}", said.out);
    said.ends(0);
    assert!(std::fs::read_to_string(file).unwrap().contains(key));
}

const ATTACK: &str = "\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}evil\u{7f}";

#[tokio::test]
async fn nothing_that_a_receiver_or_a_producer_says_can_drive_the_terminal() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let receiver = receiver(200).await;
    receiver.behave(HOOK, reply(500, "", ATTACK));
    app.endpoint(&receiver.url(HOOK), json!({})).await;
    let published = app.post("/events", &json!({ "type": "a", "data": { "name": ATTACK } })).await.is(202);
    let (event, delivery) = (text(&published["id"]), text(&published["deliveries"][0]["id"]));
    app.until_is(&delivery, "dead").await;
    let cli = CommandLine::in_app(&server, &app);
    for line in [format!("deliveries get {delivery}"), format!("events get {event}")] {
        assert!(harmless(&cli, &line).await.contains("owned"), "{line}");
    }
    let json = harmless(&cli, &format!("events get {event} --json")).await;
    let value: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["data"]["name"], ATTACK, "for programs it is the same value");
}

#[tokio::test]
async fn nothing_that_a_hostile_server_says_can_drive_the_terminal() {
    let server = receiver(200).await;
    let mut cli = CommandLine::bare();
    cli.set("POSTHASTE_URL", &server.url(""));
    cli.set("POSTHASTE_KEY", "some-key");
    let app = json!({ "id": "x", "name": ATTACK, ATTACK: ATTACK, "list": [{ ATTACK: ATTACK }] });
    server.behave("/v1/apps/x", reply(200, "", &app.to_string()));
    let page = json!({ "data": [app], "next_cursor": ATTACK });
    server.behave("/v1/apps?limit=1", reply(200, "", &page.to_string()));
    server.behave(
        "/v1/apps/y",
        reply(409, "", &json!({ "detail": ATTACK, "code": ATTACK, "field": ATTACK }).to_string()),
    );
    let shown = harmless(&cli, "apps get x").await;
    assert!(shown.contains("\\u{1b}]0;owned\\u{7}\\u{9b}2J\\u{202e}evil\\u{7f}"), "{shown}");
    harmless(&cli, "apps list --limit 1").await;
    harmless(&cli, "apps get x --json").await;
    let listed = harmless(&cli, "apps list --limit 1 --json").await;
    assert_eq!(serde_json::from_str::<Value>(&listed).unwrap(), page);
    let refused = cli.run("apps get y").await;
    assert!(refused.code == Some(1) && refused.err.contains("owned"), "{}", refused.err);
    assert!(!refused.err.contains(drives), "{:?}", refused.err);
}

fn drives(c: char) -> bool {
    c.is_control() && c != '\n' || c == '\u{202e}'
}

async fn harmless(cli: &CommandLine, line: &str) -> String {
    let said = cli.run(line).await;
    assert!(!said.err.contains(drives), "{line}: {:?}", said.err);
    let out = said.ends(0);
    assert!(!out.contains(drives), "{line}: {out:?}");
    out
}
