//! Runs every command in both output formats, and checks that none is left out.

use super::CommandLine;
use crate::{
    fixture::{HOOK, TestServer, WAIT_MAX, receiver, text},
    harness::{Behaviour, TestReceiver, wait_until},
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../../docs/command-line.md");

/// Commands that are covered by other tests, and where.
const ELSEWHERE: &[&str] = &[
    "serve",
    "dev",
    "backup",
    "restore",
    "migrate",
    "inspect",
    "openapi",
    "contracts",
    "listen",
    "verify",
    "check",
    "event-types",
];
/// Commands without output for programs.
const FOR_PEOPLE: &[&str] = &["profile set", "profile remove", "completions"];

const QUICK: &str = r#"{"retry":{"waits":["100ms"],"jitter":"none"},"timeout":"1s"}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_does_its_work_for_people_and_for_programs() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let mut cli = CommandLine::at(&server);
    apps(&cli).await;
    cli.set("POSTHASTE_APP", "bakery");
    endpoints(&cli, &receiver).await;
    events(&cli).await;
    deliveries(&cli, &receiver).await;
    dead_letters(&cli, &receiver).await;
    replays(&cli, &receiver).await;
    notices(&cli).await;
    statistics(&cli).await;
    keys_and_audit(&cli).await;
    profiles_and_completions(&mut cli).await;
    nothing_is_left_out(&cli.typed());
}

/// The page has a heading for every command; another test compares it with the commands themselves.
fn nothing_is_left_out(typed: &[String]) {
    let headings: Vec<&str> =
        PAGE.lines().filter_map(|line| line.trim_start_matches('#').strip_prefix(" posthaste ")).collect();
    let is_group = |name: &str| headings.iter().any(|other| other.starts_with(&format!("{name} ")));
    let ran = |name: &str, is_json: bool| {
        let starts = |line: &&String| line.starts_with(&format!("{name} ")) || *line == name;
        typed.iter().filter(starts).any(|line| line.contains("--json") == is_json)
    };
    let mut missing = BTreeSet::new();
    for name in headings.iter().filter(|name| !is_group(name)) {
        if ELSEWHERE.iter().any(|known| name.split(' ').next() == Some(known)) {
            continue;
        }
        if !ran(name, false) {
            missing.insert((*name).to_owned());
        }
        if !ran(name, true) && !FOR_PEOPLE.contains(name) {
            missing.insert(format!("{name} --json"));
        }
    }
    assert!(headings.len() > 50, "{headings:?}");
    assert!(missing.is_empty(), "no test runs {missing:?}");
}

async fn apps(cli: &CommandLine) {
    let made = cli
        .json("apps create --id bakery --name Bakery --metadata tier=gold --quota events_per_second=10000")
        .await;
    assert_eq!(
        (&made["quota"]["events_per_second"], &made["metadata"]["tier"]),
        (&json!(10_000), &json!("gold"))
    );
    assert!(
        cli.text_of("apps create --id cafe --name Café --livemode=false")
            .await
            .contains("livemode    false\n")
    );
    let listed = cli.both("apps list", "ID      NAME    CONTRACT  QUOTA").await;
    assert_eq!((listed["data"].as_array().unwrap().len(), &listed["next_cursor"]), (2, &Value::Null));
    assert_eq!(cli.both("apps get bakery", "name        Bakery\n").await["id"], "bakery");
    let changed = cli.json("apps update bakery --name Bäckerei --unset quota").await;
    assert_eq!(
        (&changed["name"], &changed["quota"], &changed["metadata"]["tier"]),
        (&json!("Bäckerei"), &Value::Null, &json!("gold"))
    );
    assert!(
        cli.text_of("apps update cafe --metadata places=12").await.contains("metadata    {\"places\":12}\n")
    );
    assert_eq!(cli.text_of("apps delete cafe --yes").await, "delete: cafe: done\n");
    cli.text_of("apps create --id kiosk --name Kiosk").await;
    assert_eq!(cli.text_of("apps delete kiosk --yes --json").await, "", "the API says nothing either");
    assert_eq!(cli.json("apps list").await["data"].as_array().unwrap().len(), 1);
}

async fn endpoints(cli: &CommandLine, receiver: &TestReceiver) {
    let (url, health) = (receiver.url(HOOK), receiver.url("/health"));
    let line = format!(
        "endpoints create --id shop --url {url} --health-url {health} --event-types order.*,refund.paid \
         --headers X-Shop=017 --overrides {QUICK}"
    );
    let made = cli.json(&line).await;
    assert_eq!(made["event_types"], json!(["order.*", "refund.paid"]));
    let secret = text(&made["secret"]);
    let spare = cli.text_of(&format!("endpoints create --id spare --url {url} --event-types nothing")).await;
    assert!(spare.contains("secret       whsec_"), "{spare}");
    let listed = cli.both("endpoints list", "order.*,refund.paid").await;
    assert_eq!(listed["data"].as_array().unwrap().len(), 2);
    let shown = cli.both("endpoints get shop", "status       active\n").await;
    assert!(shown["headers"].to_string().contains("•••"), "{shown}");
    let changed = cli.json("endpoints update shop --description till --max-in-flight 5").await;
    assert_eq!((&changed["description"], &changed["max_in_flight"]), (&json!("till"), &json!(5)));
    assert!(!cli.text_of("endpoints update shop --unset description,max-in-flight").await.contains("till"));
    assert!(cli.text_of("endpoints disable spare").await.contains("disabled_reason  by_hand"));
    assert_eq!(cli.json("endpoints enable spare").await["status"], "active");
    assert_eq!(cli.json("endpoints disable spare").await["status"], "disabled");
    cli.text_of("endpoints enable spare").await;
    cli.text_of("endpoints disable spare").await;
    assert_eq!(cli.json("endpoints enable spare --replay true").await["replays"][0]["kind"], "replay");
    cli.both("endpoints health spare", "state                   healthy\n").await;
    assert_eq!(cli.both("endpoints contract spare", "standard").await["name"], "standard");
    assert_eq!(cli.both("endpoints attempts spare", "").await["data"], json!([]));
    assert!(cli.text_of("endpoints test shop").await.contains("webhook.test"));
    assert_eq!(cli.json("endpoints test shop --wait").await["status"], "delivered");
    assert!(cli.text_of("endpoints ping shop").await.ends_with("protections: 1 of 1\n"));
    assert_eq!(cli.json("endpoints ping shop").await["report"]["summary"]["passed"], 1);
    let inspections = cli.both("endpoints inspections shop", "ping  finished").await;
    let id = text(&inspections["data"][0]["id"]);
    assert_eq!(
        cli.both(&format!("endpoints inspection {id}"), "kind         ping\n").await["id"],
        id.as_str()
    );
    assert_eq!(cli.both("endpoints secret shop", &secret).await["secret"], secret.as_str());
    let rotated = cli.json("endpoints rotate-secret shop --overlap 1h").await;
    assert_eq!(
        (rotated["secrets"].as_array().unwrap().len(), rotated["secret"] == secret.as_str()),
        (2, false)
    );
    cli.write("secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n");
    let given = cli.text_of("endpoints rotate-secret spare --secret @secret").await;
    assert!(given.contains("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), "{given}");
    assert_eq!(cli.text_of("endpoints delete spare --yes").await, "delete: spare: done\n");
    cli.text_of(&format!("endpoints create --id brief --url {url} --event-types nothing")).await;
    assert_eq!(cli.text_of("endpoints delete brief --yes --json").await, "");
}

async fn events(cli: &CommandLine) {
    let waited = cli.json(r#"publish order.paid --id order-1 --data {"n":1} --wait"#).await;
    assert_eq!(
        (&waited["delivered"], &waited["deliveries"][0]["endpoint_id"]),
        (&json!(true), &json!("shop"))
    );
    assert!(
        cli.text_of("publish order.paid --id order-2 --data 2 --wait").await.contains("delivered     true\n")
    );
    assert_eq!(
        cli.both("events list --event-type order.paid --from 1h", "order-2").await["data"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert_eq!(cli.both("events get order-1", "data         {\"n\":1}\n").await["data"], json!({ "n": 1 }));
    assert_eq!(cli.both("events status order-1", "attempts      1\n").await["status"], "delivered");
    assert_eq!(cli.text_of("events erase order-1 --yes").await, "erase: order-1: done\n");
    assert_eq!(cli.text_of("events erase order-2 --yes --json").await, "");
    assert_eq!(cli.json("events get order-2").await["data_erased"], true);
}

/// Publishes so many events that an endpoint answers with 500 until they are dead; returns their deliveries.
async fn dead(cli: &CommandLine, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for _ in 0..count {
        let status = cli.json_that_ends("publish fail.now --data 1 --wait", 1).await;
        assert_eq!(status["deliveries"][0]["status"], "dead", "{status}");
        ids.push(text(&status["deliveries"][0]["id"]));
    }
    ids
}

/// Whether the output has this value in this field, whatever the width of the names' column.
fn shows(output: &str, field: &str, value: &str) -> bool {
    output.lines().any(|line| line.split_whitespace().eq([field, value]))
}

async fn deliveries(cli: &CommandLine, receiver: &TestReceiver) {
    receiver.behave("/broken", Behaviour::Status(500));
    let url = receiver.url("/broken");
    cli.text_of(&format!(
        "endpoints create --id broken --url {url} --event-types fail.* --overrides {QUICK}"
    ))
    .await;
    let [one, two] = &dead(cli, 2).await[..] else { panic!("two") };
    let listed = cli.both("deliveries list --status dead,expired --endpoint-id broken", "HTTP 500").await;
    assert_eq!(listed["data"].as_array().unwrap().len(), 2);
    let output = cli.text_of(&format!("deliveries get {one}")).await;
    assert!(
        output.contains("\nattempts\nNUMBER  STARTED AT")
            && output.matches(" 500          http ").count() == 2,
        "{output}"
    );
    assert_eq!(cli.json(&format!("deliveries get {one}")).await["attempts"].as_array().unwrap().len(), 2);

    let output = cli.run(&format!("deliveries retry {one} --wait")).await;
    assert!(output.err.contains(&format!("{one} is dead (exhausted)")), "{}", output.err);
    assert!(shows(&output.ends(1), "attempt_count", "3"));
    assert_eq!(cli.json_that_ends(&format!("deliveries retry {two} --wait"), 1).await["attempt_count"], 3);
    receiver.behave("/broken", Behaviour::Ok);
    let output = cli.text_of(&format!("deliveries replay {one} --wait=20s")).await;
    assert!(shows(&output, "status", "delivered"), "{output}");
    assert_eq!(cli.json(&format!("deliveries replay {two} --wait")).await["status"], "delivered");

    let mut later = Vec::new();
    for id in ["later-1", "later-2"] {
        let published = cli.json(&format!("publish order.paid --id {id} --data 1 --deliver-at +1h")).await;
        later.push(text(&published["deliveries"][0]["id"]));
    }
    let output = cli.text_of(&format!("deliveries cancel {}", later[0])).await;
    assert!(shows(&output, "reason", "by_hand"), "{output}");
    assert_eq!(cli.json(&format!("deliveries cancel {}", later[1])).await["status"], "cancelled");
    assert_eq!(
        cli.text_of(&format!("deliveries delete {} --yes", later[0])).await,
        format!("delete: {}: done\n", later[0])
    );
    assert_eq!(cli.text_of(&format!("deliveries delete {} --yes --json", later[1])).await, "");
    assert_eq!(cli.run(&format!("deliveries get {}", later[1])).await.code, Some(3));
}

async fn dead_letters(cli: &CommandLine, receiver: &TestReceiver) {
    receiver.behave("/broken", Behaviour::Status(500));
    let ids = dead(cli, 4).await;
    let listed = cli.both("deadletters list --endpoint-id broken", "exhausted").await;
    assert_eq!(listed["data"].as_array().unwrap().len(), 4);
    assert!(shows(&cli.text_of(&format!("deadletters close {}", ids[0])).await, "reason", "closed"));
    assert_eq!(cli.json(&format!("deadletters close {}", ids[1])).await["reason"], "closed");
    assert_eq!(cli.json("deadletters list").await["data"].as_array().unwrap().len(), 2);
    assert_eq!(cli.json("deadletters list --closed").await["data"].as_array().unwrap().len(), 4);
    receiver.behave("/broken", Behaviour::Ok);
    cli.text_of(&format!("deadletters replay {} --wait", ids[2])).await;
    assert_eq!(cli.json(&format!("deadletters replay {} --wait", ids[3])).await["status"], "delivered");
}

async fn replays(cli: &CommandLine, receiver: &TestReceiver) {
    let counted = cli.json("replay start --endpoint-id broken --status delivered --dry-run").await;
    assert_eq!(counted, json!({ "dry_run": true, "total": 4 }));
    let watched = cli.text_of("replay start --endpoint-id broken --status delivered --watch").await;
    assert!(watched.lines().last().unwrap().starts_with("finished: 4 of 4 replayed, 0 refused"), "{watched}");
    let listed = cli.both("replay list", "replay  finished").await;
    let id = text(&listed["data"][0]["id"]);
    assert_eq!(cli.both(&format!("replay get {id}"), "progress            1.0\n").await["replayed"], 4);
    assert_eq!(cli.both(&format!("replay watch {id}"), "finished: 4 of 4").await["state"], "finished");

    let slow = text(&cli.json("replay start --status delivered --per-second 1").await["id"]);
    assert!(cli.text_of(&format!("replay pause {slow}")).await.contains("state               paused\n"));
    assert_eq!(cli.json(&format!("replay resume {slow}")).await["state"], "running");
    assert_eq!(cli.json(&format!("replay pause {slow}")).await["state"], "paused");
    cli.text_of(&format!("replay resume {slow}")).await;
    assert!(cli.text_of(&format!("replay cancel {slow}")).await.contains("state               cancelled\n"));
    let watched = cli.run(&format!("replay watch {slow}")).await;
    assert_eq!((watched.code, watched.err.contains("was cancelled")), (Some(1), true), "{}", watched.err);
    let other = text(&cli.json("replay start --status delivered --per-second 1").await["id"]);
    assert_eq!(cli.json(&format!("replay cancel {other}")).await["state"], "cancelled");

    let url = receiver.url("/archive");
    cli.text_of(&format!("endpoints create --id archive --url {url} --event-types fail.*")).await;
    assert_eq!(cli.text_of("endpoints backfill archive --dry-run").await, "dry_run  true\ntotal    6\n");
    let lines = cli.text_of("endpoints backfill archive --watch --json").await;
    let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&last["kind"], &last["state"], &last["replayed"]),
        (&json!("backfill"), &json!("finished"), &json!(6))
    );
    wait_until("the archive has all six", WAIT_MAX, async || receiver.count_at("/archive") == 6).await;
}

async fn notices(cli: &CommandLine) {
    let listed = cli.both("notices list --kind replay.finished", "4 sent again").await;
    let id = text(&listed["data"].as_array().unwrap().last().unwrap()["id"]);
    let shown = cli.both(&format!("notices get {id}"), "replay.finished").await;
    assert_eq!(shown["mail"]["state"], "none");
    let everywhere = cli.json("notices list --every-app --kind delivery.dead").await;
    assert_eq!(everywhere["data"][0]["app_id"], "bakery", "{everywhere}");
}

async fn statistics(cli: &CommandLine) {
    let output = cli.both("stats show --from 1h", "order.paid").await;
    assert_eq!(output["step_seconds"], 60);
    let everywhere = cli.json("stats show --every-app").await;
    assert_eq!(everywhere["step_seconds"], 3600, "{everywhere}");
}

async fn portal_links(cli: &CommandLine) {
    let made = cli.json("portal-links create --expires-in 2h --read-only --theme name=Bakery").await;
    let id = text(&made["id"]);
    assert_eq!((&made["read_only"], &made["theme"]["name"]), (&json!(true), &json!("Bakery")));
    let output = cli.text_of("portal-links create").await;
    assert!(output.contains("/portal/key_") && output.contains("#key=pht_"), "{output}");
    let listed = cli.both("portal-links list", &id).await;
    assert_eq!(listed["data"].as_array().unwrap().len(), 2);
    assert_eq!(
        cli.text_of(&format!("portal-links revoke {id} --yes")).await,
        format!("revoke: {id}: done\n")
    );
    let other = text(&listed["data"][1]["id"]);
    assert_eq!(cli.text_of(&format!("portal-links revoke {other} --yes --json")).await, "");
}

async fn keys_and_audit(cli: &CommandLine) {
    let made = cli.json("keys create --scope publish --name checkout --expires-at +90d").await;
    assert_eq!((&made["app_id"], made["expires_at"].is_string()), (&json!("bakery"), true), "{made}");
    let admin = cli.text_of("keys create --scope admin --name deputy").await;
    assert!(
        admin.contains("key         phk_") && !admin.contains("app_id"),
        "an admin key is for no app: {admin}"
    );
    let (id, prefix) = (text(&made["id"]), text(&made["prefix"]));
    let listed = cli.both("keys list", &prefix).await;
    assert!(!listed.to_string().contains(&text(&made["key"])));
    assert_eq!(cli.both(&format!("keys get {id}"), "name        checkout\n").await["id"], id.as_str());
    assert_eq!(cli.text_of(&format!("keys revoke {id} --yes")).await, format!("revoke: {id}: done\n"));
    let other =
        text(&listed["data"].as_array().unwrap().iter().find(|key| key["name"] == "deputy").unwrap()["id"]);
    assert_eq!(cli.text_of(&format!("keys revoke {other} --yes --json")).await, "");
    assert_eq!(cli.both("keys whoami", "scope      admin\n").await["scope"], "admin");
    portal_links(cli).await;
    let revoked = cli.json("keys list --revoked").await;
    assert!(revoked["data"].as_array().unwrap().iter().any(|key| key["id"] == id.as_str()), "{revoked}");

    let here = cli.both("audit list --all", "endpoint.created").await;
    assert!(here["data"].as_array().unwrap().iter().all(|entry| entry["app_id"] == "bakery"), "{here}");
    let everywhere = cli.json("audit list --every-app --action app.deleted").await;
    assert_eq!(everywhere["data"].as_array().unwrap().len(), 2, "{everywhere}");
    assert_eq!(cli.both("system show", "sqlite").await["store"]["kind"], "sqlite");
    assert_eq!(cli.both("system find bakery", "app").await["data"][0]["kind"], "app");
}

async fn profiles_and_completions(cli: &mut CommandLine) {
    let file = cli.file("profiles.toml");
    cli.set("POSTHASTE_PROFILE_FILE", file.to_str().unwrap());
    cli.run_with(&["profile", "set", "spare", "--key-stdin"], b"phk_spare-0000000000000000001\n")
        .await
        .ends(0);
    assert_eq!(cli.both("profile list", "spare").await["data"][0]["key_prefix"], "phk_spar");
    cli.text_of("profile remove spare --yes").await;
    for (shell, words) in [
        ("bash", "complete"),
        ("zsh", "#compdef"),
        ("fish", "complete"),
        ("elvish", "edit:"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        let script = cli.text_of(&format!("completions {shell}")).await;
        assert!(script.contains(words) && script.contains("deadletters"), "{shell}");
    }
}
