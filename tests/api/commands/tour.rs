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
    let world = TestServer::start().await;
    let receiver = receiver(200).await;
    let mut desk = CommandLine::at(&world);
    apps(&desk).await;
    desk.set("POSTHASTE_APP", "bakery");
    endpoints(&desk, &receiver).await;
    events(&desk).await;
    deliveries(&desk, &receiver).await;
    dead_letters(&desk, &receiver).await;
    replays(&desk, &receiver).await;
    notices(&desk).await;
    statistics(&desk).await;
    keys_and_audit(&desk).await;
    profiles_and_completions(&mut desk).await;
    nothing_is_left_out(&desk.typed());
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

async fn apps(desk: &CommandLine) {
    let made = desk
        .json("apps create --id bakery --name Bakery --metadata tier=gold --quota events_per_second=10000")
        .await;
    assert_eq!(
        (&made["quota"]["events_per_second"], &made["metadata"]["tier"]),
        (&json!(10_000), &json!("gold"))
    );
    assert!(
        desk.text_of("apps create --id cafe --name Café --livemode=false")
            .await
            .contains("livemode    false\n")
    );
    let listed = desk.both("apps list", "ID      NAME    CONTRACT  QUOTA").await;
    assert_eq!((listed["data"].as_array().unwrap().len(), &listed["next_cursor"]), (2, &Value::Null));
    assert_eq!(desk.both("apps get bakery", "name        Bakery\n").await["id"], "bakery");
    let changed = desk.json("apps update bakery --name Bäckerei --unset quota").await;
    assert_eq!(
        (&changed["name"], &changed["quota"], &changed["metadata"]["tier"]),
        (&json!("Bäckerei"), &Value::Null, &json!("gold"))
    );
    assert!(
        desk.text_of("apps update cafe --metadata seats=12").await.contains("metadata    {\"seats\":12}\n")
    );
    assert_eq!(desk.text_of("apps delete cafe --yes").await, "delete: cafe: done\n");
    desk.text_of("apps create --id kiosk --name Kiosk").await;
    assert_eq!(desk.text_of("apps delete kiosk --yes --json").await, "", "the API says nothing either");
    assert_eq!(desk.json("apps list").await["data"].as_array().unwrap().len(), 1);
}

async fn endpoints(desk: &CommandLine, receiver: &TestReceiver) {
    let (url, health) = (receiver.url(HOOK), receiver.url("/health"));
    let line = format!(
        "endpoints create --id shop --url {url} --health-url {health} --event-types order.*,refund.paid \
         --headers X-Shop=017 --overrides {QUICK}"
    );
    let made = desk.json(&line).await;
    assert_eq!(made["event_types"], json!(["order.*", "refund.paid"]));
    let secret = text(&made["secret"]);
    let spare = desk.text_of(&format!("endpoints create --id spare --url {url} --event-types nothing")).await;
    assert!(spare.contains("secret       whsec_"), "{spare}");
    let listed = desk.both("endpoints list", "order.*,refund.paid").await;
    assert_eq!(listed["data"].as_array().unwrap().len(), 2);
    let shown = desk.both("endpoints get shop", "status       active\n").await;
    assert!(shown["headers"].to_string().contains("•••"), "{shown}");
    let changed = desk.json("endpoints update shop --description till --max-in-flight 5").await;
    assert_eq!((&changed["description"], &changed["max_in_flight"]), (&json!("till"), &json!(5)));
    assert!(!desk.text_of("endpoints update shop --unset description,max-in-flight").await.contains("till"));
    assert!(desk.text_of("endpoints disable spare").await.contains("disabled_reason  by_hand"));
    assert_eq!(desk.json("endpoints enable spare").await["status"], "active");
    assert_eq!(desk.json("endpoints disable spare").await["status"], "disabled");
    desk.text_of("endpoints enable spare").await;
    desk.text_of("endpoints disable spare").await;
    assert_eq!(desk.json("endpoints enable spare --replay true").await["replays"][0]["kind"], "replay");
    desk.both("endpoints health spare", "state                   healthy\n").await;
    assert_eq!(desk.both("endpoints contract spare", "standard").await["name"], "standard");
    assert_eq!(desk.both("endpoints attempts spare", "").await["data"], json!([]));
    assert!(desk.text_of("endpoints test shop").await.contains("webhook.test"));
    assert_eq!(desk.json("endpoints test shop --wait").await["status"], "delivered");
    assert!(desk.text_of("endpoints ping shop").await.ends_with("protections: 1 of 1\n"));
    assert_eq!(desk.json("endpoints ping shop").await["report"]["summary"]["passed"], 1);
    let inspections = desk.both("endpoints inspections shop", "ping  finished").await;
    let id = text(&inspections["data"][0]["id"]);
    assert_eq!(
        desk.both(&format!("endpoints inspection {id}"), "kind         ping\n").await["id"],
        id.as_str()
    );
    assert_eq!(desk.both("endpoints secret shop", &secret).await["secret"], secret.as_str());
    let rotated = desk.json("endpoints rotate-secret shop --overlap 1h").await;
    assert_eq!(
        (rotated["secrets"].as_array().unwrap().len(), rotated["secret"] == secret.as_str()),
        (2, false)
    );
    desk.write("secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n");
    let given = desk.text_of("endpoints rotate-secret spare --secret @secret").await;
    assert!(given.contains("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), "{given}");
    assert_eq!(desk.text_of("endpoints delete spare --yes").await, "delete: spare: done\n");
    desk.text_of(&format!("endpoints create --id brief --url {url} --event-types nothing")).await;
    assert_eq!(desk.text_of("endpoints delete brief --yes --json").await, "");
}

async fn events(desk: &CommandLine) {
    let waited = desk.json(r#"publish order.paid --id order-1 --data {"n":1} --wait"#).await;
    assert_eq!(
        (&waited["delivered"], &waited["deliveries"][0]["endpoint_id"]),
        (&json!(true), &json!("shop"))
    );
    assert!(
        desk.text_of("publish order.paid --id order-2 --data 2 --wait")
            .await
            .contains("delivered     true\n")
    );
    assert_eq!(
        desk.both("events list --event-type order.paid --from 1h", "order-2").await["data"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert_eq!(desk.both("events get order-1", "data         {\"n\":1}\n").await["data"], json!({ "n": 1 }));
    assert_eq!(desk.both("events status order-1", "attempts      1\n").await["status"], "delivered");
    assert_eq!(desk.text_of("events erase order-1 --yes").await, "erase: order-1: done\n");
    assert_eq!(desk.text_of("events erase order-2 --yes --json").await, "");
    assert_eq!(desk.json("events get order-2").await["data_erased"], true);
}

/// Publishes so many events that an endpoint answers with 500 until they are dead; returns their deliveries.
async fn dead(desk: &CommandLine, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for _ in 0..count {
        let status = desk.json_that_ends("publish fail.now --data 1 --wait", 1).await;
        assert_eq!(status["deliveries"][0]["status"], "dead", "{status}");
        ids.push(text(&status["deliveries"][0]["id"]));
    }
    ids
}

/// Whether the output has this value in this field, whatever the width of the names' column.
fn shows(told: &str, field: &str, value: &str) -> bool {
    told.lines().any(|line| line.split_whitespace().eq([field, value]))
}

async fn deliveries(desk: &CommandLine, receiver: &TestReceiver) {
    receiver.behave("/broken", Behaviour::Status(500));
    let url = receiver.url("/broken");
    desk.text_of(&format!(
        "endpoints create --id broken --url {url} --event-types fail.* --overrides {QUICK}"
    ))
    .await;
    let [one, two] = &dead(desk, 2).await[..] else { panic!("two") };
    let listed = desk.both("deliveries list --status dead,expired --endpoint-id broken", "HTTP 500").await;
    assert_eq!(listed["data"].as_array().unwrap().len(), 2);
    let told = desk.text_of(&format!("deliveries get {one}")).await;
    assert!(
        told.contains("\nattempts\nNUMBER  STARTED AT") && told.matches(" 500          http ").count() == 2,
        "{told}"
    );
    assert_eq!(desk.json(&format!("deliveries get {one}")).await["attempts"].as_array().unwrap().len(), 2);

    let told = desk.run(&format!("deliveries retry {one} --wait")).await;
    assert!(told.err.contains(&format!("{one} is dead (exhausted)")), "{}", told.err);
    assert!(shows(&told.ends(1), "attempt_count", "3"));
    assert_eq!(desk.json_that_ends(&format!("deliveries retry {two} --wait"), 1).await["attempt_count"], 3);
    receiver.behave("/broken", Behaviour::Ok);
    let told = desk.text_of(&format!("deliveries replay {one} --wait=20s")).await;
    assert!(shows(&told, "status", "delivered"), "{told}");
    assert_eq!(desk.json(&format!("deliveries replay {two} --wait")).await["status"], "delivered");

    let mut later = Vec::new();
    for id in ["later-1", "later-2"] {
        let published = desk.json(&format!("publish order.paid --id {id} --data 1 --deliver-at +1h")).await;
        later.push(text(&published["deliveries"][0]["id"]));
    }
    let told = desk.text_of(&format!("deliveries cancel {}", later[0])).await;
    assert!(shows(&told, "reason", "by_hand"), "{told}");
    assert_eq!(desk.json(&format!("deliveries cancel {}", later[1])).await["status"], "cancelled");
    assert_eq!(
        desk.text_of(&format!("deliveries delete {} --yes", later[0])).await,
        format!("delete: {}: done\n", later[0])
    );
    assert_eq!(desk.text_of(&format!("deliveries delete {} --yes --json", later[1])).await, "");
    assert_eq!(desk.run(&format!("deliveries get {}", later[1])).await.code, Some(3));
}

async fn dead_letters(desk: &CommandLine, receiver: &TestReceiver) {
    receiver.behave("/broken", Behaviour::Status(500));
    let ids = dead(desk, 4).await;
    let listed = desk.both("deadletters list --endpoint-id broken", "exhausted").await;
    assert_eq!(listed["data"].as_array().unwrap().len(), 4);
    assert!(shows(&desk.text_of(&format!("deadletters close {}", ids[0])).await, "reason", "closed"));
    assert_eq!(desk.json(&format!("deadletters close {}", ids[1])).await["reason"], "closed");
    assert_eq!(desk.json("deadletters list").await["data"].as_array().unwrap().len(), 2);
    assert_eq!(desk.json("deadletters list --closed").await["data"].as_array().unwrap().len(), 4);
    receiver.behave("/broken", Behaviour::Ok);
    desk.text_of(&format!("deadletters replay {} --wait", ids[2])).await;
    assert_eq!(desk.json(&format!("deadletters replay {} --wait", ids[3])).await["status"], "delivered");
}

async fn replays(desk: &CommandLine, receiver: &TestReceiver) {
    let counted = desk.json("replay start --endpoint-id broken --status delivered --dry-run").await;
    assert_eq!(counted, json!({ "dry_run": true, "total": 4 }));
    let watched = desk.text_of("replay start --endpoint-id broken --status delivered --watch").await;
    assert!(watched.lines().last().unwrap().starts_with("finished: 4 of 4 replayed, 0 refused"), "{watched}");
    let listed = desk.both("replay list", "replay  finished").await;
    let id = text(&listed["data"][0]["id"]);
    assert_eq!(desk.both(&format!("replay get {id}"), "progress            1.0\n").await["replayed"], 4);
    assert_eq!(desk.both(&format!("replay watch {id}"), "finished: 4 of 4").await["state"], "finished");

    let slow = text(&desk.json("replay start --status delivered --per-second 1").await["id"]);
    assert!(desk.text_of(&format!("replay pause {slow}")).await.contains("state               paused\n"));
    assert_eq!(desk.json(&format!("replay resume {slow}")).await["state"], "running");
    assert_eq!(desk.json(&format!("replay pause {slow}")).await["state"], "paused");
    desk.text_of(&format!("replay resume {slow}")).await;
    assert!(desk.text_of(&format!("replay cancel {slow}")).await.contains("state               cancelled\n"));
    let watched = desk.run(&format!("replay watch {slow}")).await;
    assert_eq!((watched.code, watched.err.contains("was cancelled")), (Some(1), true), "{}", watched.err);
    let other = text(&desk.json("replay start --status delivered --per-second 1").await["id"]);
    assert_eq!(desk.json(&format!("replay cancel {other}")).await["state"], "cancelled");

    let url = receiver.url("/archive");
    desk.text_of(&format!("endpoints create --id archive --url {url} --event-types fail.*")).await;
    assert_eq!(desk.text_of("endpoints backfill archive --dry-run").await, "dry_run  true\ntotal    6\n");
    let lines = desk.text_of("endpoints backfill archive --watch --json").await;
    let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&last["kind"], &last["state"], &last["replayed"]),
        (&json!("backfill"), &json!("finished"), &json!(6))
    );
    wait_until("the archive has all six", WAIT_MAX, async || receiver.count_at("/archive") == 6).await;
}

async fn notices(desk: &CommandLine) {
    let listed = desk.both("notices list --kind replay.finished", "4 sent again").await;
    let id = text(&listed["data"].as_array().unwrap().last().unwrap()["id"]);
    let shown = desk.both(&format!("notices get {id}"), "replay.finished").await;
    assert_eq!(shown["mail"]["state"], "none");
    let everywhere = desk.json("notices list --every-app --kind delivery.dead").await;
    assert_eq!(everywhere["data"][0]["app_id"], "bakery", "{everywhere}");
}

async fn statistics(desk: &CommandLine) {
    let told = desk.both("stats show --from 1h", "order.paid").await;
    assert_eq!(told["step_seconds"], 60);
    let everywhere = desk.json("stats show --every-app").await;
    assert_eq!(everywhere["step_seconds"], 3600, "{everywhere}");
}

async fn portal_links(desk: &CommandLine) {
    let made = desk.json("portal-links create --expires-in 2h --read-only --theme name=Bakery").await;
    let id = text(&made["id"]);
    assert_eq!((&made["read_only"], &made["theme"]["name"]), (&json!(true), &json!("Bakery")));
    let told = desk.text_of("portal-links create").await;
    assert!(told.contains("/portal/key_") && told.contains("#key=pht_"), "{told}");
    let listed = desk.both("portal-links list", &id).await;
    assert_eq!(listed["data"].as_array().unwrap().len(), 2);
    assert_eq!(
        desk.text_of(&format!("portal-links revoke {id} --yes")).await,
        format!("revoke: {id}: done\n")
    );
    let other = text(&listed["data"][1]["id"]);
    assert_eq!(desk.text_of(&format!("portal-links revoke {other} --yes --json")).await, "");
}

async fn keys_and_audit(desk: &CommandLine) {
    let made = desk.json("keys create --scope publish --name checkout --expires-at +90d").await;
    assert_eq!((&made["app_id"], made["expires_at"].is_string()), (&json!("bakery"), true), "{made}");
    let admin = desk.text_of("keys create --scope admin --name deputy").await;
    assert!(
        admin.contains("key         phk_") && !admin.contains("app_id"),
        "an admin key is for no app: {admin}"
    );
    let (id, prefix) = (text(&made["id"]), text(&made["prefix"]));
    let listed = desk.both("keys list", &prefix).await;
    assert!(!listed.to_string().contains(&text(&made["key"])));
    assert_eq!(desk.both(&format!("keys get {id}"), "name        checkout\n").await["id"], id.as_str());
    assert_eq!(desk.text_of(&format!("keys revoke {id} --yes")).await, format!("revoke: {id}: done\n"));
    let other =
        text(&listed["data"].as_array().unwrap().iter().find(|key| key["name"] == "deputy").unwrap()["id"]);
    assert_eq!(desk.text_of(&format!("keys revoke {other} --yes --json")).await, "");
    assert_eq!(desk.both("keys whoami", "scope      admin\n").await["scope"], "admin");
    portal_links(desk).await;
    let revoked = desk.json("keys list --revoked").await;
    assert!(revoked["data"].as_array().unwrap().iter().any(|key| key["id"] == id.as_str()), "{revoked}");

    let here = desk.both("audit list --all", "endpoint.created").await;
    assert!(here["data"].as_array().unwrap().iter().all(|entry| entry["app_id"] == "bakery"), "{here}");
    let everywhere = desk.json("audit list --every-app --action app.deleted").await;
    assert_eq!(everywhere["data"].as_array().unwrap().len(), 2, "{everywhere}");
    assert_eq!(desk.both("system show", "sqlite").await["store"]["kind"], "sqlite");
    assert_eq!(desk.both("system find bakery", "app").await["data"][0]["kind"], "app");
}

async fn profiles_and_completions(desk: &mut CommandLine) {
    let file = desk.file("profiles.toml");
    desk.set("POSTHASTE_PROFILE_FILE", file.to_str().unwrap());
    desk.run_with(&["profile", "set", "spare", "--key-stdin"], b"phk_spare-0000000000000000001\n")
        .await
        .ends(0);
    assert_eq!(desk.both("profile list", "spare").await["data"][0]["key_prefix"], "phk_spar");
    desk.text_of("profile remove spare --yes").await;
    for (shell, words) in [
        ("bash", "complete"),
        ("zsh", "#compdef"),
        ("fish", "complete"),
        ("elvish", "edit:"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        let script = desk.text_of(&format!("completions {shell}")).await;
        assert!(script.contains(words) && script.contains("deadletters"), "{shell}");
    }
}
