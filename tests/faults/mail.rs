//! Mails through a real server: read back word for word, over STARTTLS and TLS, with right and wrong passwords, while the server
//! is down, slow or refusing, and across a kill.

mod server;

use crate::harness::{Behaviour, NodeFolder, TestClient, TestReceiver, wait_until};
use serde_json::{Value, json};
pub(crate) use server::TestMailServer;
use server::{PASSWORD, USER};
use std::{process::Command, time::Duration};

const WAIT_LIMIT: Duration = Duration::from_mins(1);

pub(crate) fn home(server: &TestMailServer, security: &str) -> NodeFolder {
    let mut home = NodeFolder::new();
    home.set("LOG_LEVEL", "trace");
    home.set("SMTP_SERVER", &format!("localhost:{}", server.port));
    home.set("SMTP_SECURITY", security);
    home.set("SMTP_USER", USER);
    home.set("SMTP_PASSWORD", PASSWORD);
    home.set("MAIL_FROM", "Posthaste <posthaste@mail.example>");
    home.set("OPERATOR_EMAIL", "ops@operator.example");
    home.set("PUBLIC_URL", "https://hooks.example/");
    home.set("MAILS_PER_MINUTE", "600");
    home.set("EXTRA_CA", &server.ca().display().to_string());
    home
}

/// Creates an app under `bastionary` whose one endpoint lets every delivery die at the first try.
pub(crate) async fn create_app(
    client: &TestClient,
    receiver: &TestReceiver,
    app: &str,
    contact: Option<&str>,
) {
    let body = json!({ "id": app, "name": format!("Café {app}"), "contract": "bastionary", "contact_email": contact });
    client.post("/v1/apps", &body).await.expect(201);
    receiver.behave("/", Behaviour::Status(503));
    let more = json!({ "overrides": { "retry": { "waits": [] }, "https_only": false } });
    client.make_endpoint(app, "shop", &receiver.url("/"), more).await;
}

pub(crate) async fn make_dead_letter(client: &TestClient, app: &str) -> String {
    let published = client.publish(app, &json!({ "type": "user.created", "data": { "n": 1 } })).await;
    published["deliveries"][0]["id"].as_str().unwrap().to_owned()
}

async fn mail_states(client: &TestClient, app: &str) -> Vec<Value> {
    let notices = client.list(&format!("/v1/apps/{app}/notices")).await;
    notices.into_iter().map(|notice| notice["mail"].clone()).collect()
}

async fn until_sent(client: &TestClient, app: &str, count: usize) {
    wait_until("every notice is mailed", WAIT_LIMIT, async || {
        let states = mail_states(client, app).await;
        states.len() == count && states.iter().all(|mail| mail["state"] == "sent")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_is_mailed_as_text_over_starttls_and_over_tls() {
    for security in ["starttls", "tls"] {
        let server = TestMailServer::start(security).await;
        let (home, receiver) = (home(&server, security), TestReceiver::start().await);
        let node = home.start().await;
        let client = &node.client;
        create_app(client, &receiver, "bakery", Some("owner@bakery.example")).await;
        create_app(client, &receiver, "nobody", None).await;
        let delivery = make_dead_letter(client, "bakery").await;
        until_sent(client, "bakery", 1).await;
        let mails = server.mails();
        let [mail] = &mails[..] else { panic!("{mails:#?}") };
        assert_eq!(mail.header("X-To"), "owner@bakery.example");
        assert_eq!(mail.header("To"), "owner@bakery.example");
        assert!(mail.header("From").ends_with("<posthaste@mail.example>"));
        assert_eq!(mail.header("Auto-Submitted"), "auto-generated");
        assert!(mail.header("Message-ID").ends_with("@mail.example>"));
        assert!(mail.header("Subject").starts_with("[Posthaste] ="), "{}", mail.header("Subject"));
        for words in [
            "A delivery of user.created is dead: one attempt failed, and its schedule is used up.\n"
                .to_owned(),
            format!("Endpoint:    shop, {}\n", receiver.url("/")),
            "Last error:  HTTP 503\n".to_owned(),
            "Reason:      exhausted\n".to_owned(),
            format!("https://hooks.example/apps/bakery/deliveries/{delivery}\n"),
        ] {
            assert!(mail.body.contains(&words), "{words:?} in\n{}", mail.body);
        }
        make_dead_letter(client, "nobody").await;
        until_sent(client, "nobody", 1).await;
        assert_eq!(server.mails()[1].header("X-To"), "ops@operator.example");
        assert_eq!(client.metric("posthaste_mails_total{outcome=\"sent\"}").await as u32, 2);
        assert!(!node.log().contains(PASSWORD), "the password is in the log");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_an_outage_and_nothing_is_lost() {
    let server = TestMailServer::start("starttls").await;
    let (mut home, receiver) = (home(&server, "starttls"), TestReceiver::start().await);
    home.set("SMTP_PASSWORD", "marker-of-a-wrong-password");
    let mut node = home.start().await;
    create_app(&node.client, &receiver, "a", None).await;
    make_dead_letter(&node.client, "a").await;
    wait_until("it failed", WAIT_LIMIT, async || {
        node.client.metric("posthaste_mails_total{outcome=\"failed\"}").await >= 1.0
    })
    .await;
    assert_eq!(mail_states(&node.client, "a").await[0]["state"], "waiting");
    let log = node.log();
    assert!(log.contains("535") && log.contains("the login"), "{log}");
    assert!(!log.contains("marker-of-a-wrong-password"), "the password is in the log");
    node.stop().await;
    home.set("SMTP_PASSWORD", PASSWORD);
    let node = home.start().await;
    until_sent(&node.client, "a", 1).await;
    assert_eq!(server.mails().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_an_outage_the_mail_server_gets_every_mail_once_and_in_order() {
    let mut server = TestMailServer::start("starttls").await;
    server.down().await;
    let (home, receiver) = (home(&server, "starttls"), TestReceiver::start().await);
    let node = home.start().await;
    create_app(&node.client, &receiver, "a", None).await;
    let mut deliveries = Vec::new();
    for _ in 0..5 {
        deliveries.push(make_dead_letter(&node.client, "a").await);
        // One after another: notices of the same time may come in any order.
        wait_until("its notice exists", WAIT_LIMIT, async || {
            mail_states(&node.client, "a").await.len() == deliveries.len()
        })
        .await;
    }
    wait_until("two tries failed", WAIT_LIMIT, async || {
        node.client.metric("posthaste_mails_total{outcome=\"failed\"}").await >= 2.0
    })
    .await;
    server.up().await;
    until_sent(&node.client, "a", 5).await;
    let mails = server.mails();
    assert_eq!(mails.len(), 5);
    for (mail, delivery) in mails.iter().zip(&deliveries) {
        assert!(mail.body.contains(delivery), "in order: {delivery} in\n{}", mail.body);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_4xx_is_retried_and_a_5xx_affects_one_recipient() {
    let server = TestMailServer::start("starttls").await;
    server.answers(&json!({
        "rcpt": { "gone@a.example": "550 5.1.1 no such user here" }, "data": "451 4.3.0 the disk is full",
    }));
    let (home, receiver) = (home(&server, "starttls"), TestReceiver::start().await);
    let node = home.start().await;
    create_app(&node.client, &receiver, "gone", Some("gone@a.example")).await;
    create_app(&node.client, &receiver, "well", Some("well@a.example")).await;
    make_dead_letter(&node.client, "gone").await;
    make_dead_letter(&node.client, "well").await;
    wait_until("one is refused", WAIT_LIMIT, async || {
        mail_states(&node.client, "gone").await.first().is_some_and(|mail| mail["state"] == "refused")
    })
    .await;
    let refused = &mail_states(&node.client, "gone").await[0];
    assert!(refused["error"].as_str().unwrap().contains("no such user here"), "{refused}");
    wait_until("the other is tried", WAIT_LIMIT, async || {
        node.client.metric("posthaste_mails_total{outcome=\"failed\"}").await >= 1.0
    })
    .await;
    assert_eq!(mail_states(&node.client, "well").await[0]["state"], "waiting");
    server.answers(&json!({}));
    until_sent(&node.client, "well", 1).await;
    assert_eq!(server.mails().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_after_the_server_took_a_mail_sends_that_one_again_under_the_same_id() {
    let server = TestMailServer::start("tls").await;
    let (home, receiver) = (home(&server, "tls"), TestReceiver::start().await);
    let mut node = home.start().await;
    create_app(&node.client, &receiver, "a", None).await;
    server.answers(&json!({ "data_takes": 60 }));
    make_dead_letter(&node.client, "a").await;
    wait_until("the server has it", WAIT_LIMIT, async || server.mails().len() == 1).await;
    node.kill().await;
    server.answers(&json!({}));
    let node = home.start().await;
    make_dead_letter(&node.client, "a").await;
    until_sent(&node.client, "a", 2).await;
    let mails = server.mails();
    let ids: Vec<_> = mails.iter().map(|mail| mail.header("Message-ID").to_owned()).collect();
    assert_eq!(ids.len(), 3, "{ids:?}");
    assert_eq!(ids[0], ids[1], "the same mail");
    assert_eq!(mails[0].body, mails[1].body);
    assert_ne!(ids[1], ids[2]);
}

/// Returns the results of `posthaste check --json` for the mail server, with its exit code.
fn check(home: &NodeFolder, more: &[&str]) -> (Option<i32>, Vec<(String, String)>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    command
        .args(["check", "--json"])
        .args(more)
        .env_clear()
        .envs(home.settings())
        .current_dir(home.run_folder());
    let output = command.output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |line: &Value, field: &str| line[field].as_str().unwrap().to_owned();
    let lines = found["checks"].as_array().unwrap().iter().filter(|line| line["name"] == "mail");
    assert!(!String::from_utf8_lossy(&output.stdout).contains(PASSWORD));
    (output.status.code(), lines.map(|line| (text(line, "grade"), text(line, "said"))).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_tests_the_mail_server_and_sends_a_mail_only_on_request() {
    let mut server = TestMailServer::start("starttls").await;
    let mut home = home(&server, "starttls");
    let line = |grade: &str, said: &str| (grade.to_owned(), said.to_owned());
    let well = line("ok", "the mail server answers and lets us in");
    assert_eq!(check(&home, &[]), (Some(0), vec![well.clone()]));
    assert!(server.mails().is_empty());
    let (code, lines) = check(&home, &["--mail-to", "me@there.example"]);
    assert_eq!((code, lines), (Some(0), vec![well, line("ok", "the mail server took a test mail")]));
    assert_eq!(server.mails()[0].header("X-To"), "me@there.example");

    home.set("SMTP_PASSWORD", "wrong");
    let (code, lines) = check(&home, &[]);
    assert!(code == Some(1) && lines[0].1.contains("535"), "{lines:?}");
    home.set("SMTP_PASSWORD", PASSWORD);
    home.unset("EXTRA_CA");
    let (code, lines) = check(&home, &[]);
    assert!(code == Some(1) && lines[0].1.contains("not signed by a trusted authority"), "{lines:?}");
    server.down().await;
    let (code, lines) = check(&home, &[]);
    assert!(code == Some(1) && lines[0].1.contains("cannot connect to the mail server"), "{lines:?}");
    home.set("SMTP_SECURITY", "none");
    home.set("SMTP_SERVER", "mail.example:25");
    let (code, lines) = check(&home, &[]);
    assert!(code == Some(1) && lines[0].1.contains("in plain text"), "{lines:?}");
}
