//! Command of the leader: with two nodes notices are mailed and replays run only once, and when the leader is killed in the middle
//! the other node continues.

use crate::{
    harness::{
        NodeFolder, TestClient, TestNode, TestReceiver, database::TestDatabaseServer, report, wait_for,
        wait_until,
    },
    mail,
};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

const WAIT_LIMIT: Duration = Duration::from_mins(1);
const APPS: [&str; 3] = ["bakery", "dairy", "mill"];
/// Notices before the kill and after it.
const NOTICES_BEFORE: usize = 9;
const NOTICES_AFTER: usize = 30;
/// Notices of the second batch that are mailed before the kill.
const MAILED_BEFORE_KILL: usize = 8;
const EVENTS: usize = 400;

/// Two nodes on one database that share the shards.
struct NodePair {
    server: TestDatabaseServer,
    nodes: [TestNode; 2],
    _homes: [NodeFolder; 2],
}

impl NodePair {
    async fn start(mut homes: [NodeFolder; 2]) -> Self {
        let server = TestDatabaseServer::start();
        for home in &mut homes {
            home.set("STORE", &server.address("postgres"));
        }
        let started = tokio::join!(homes[0].start(), homes[1].start());
        let pair = Self { server, nodes: [started.0, started.1], _homes: homes };
        let halves = "SELECT count(*) FROM (SELECT 1 FROM posthaste.shards GROUP BY epoch HAVING count(*) = 128) AS half";
        wait_until("both have their part", WAIT_LIMIT, async || pair.ask(halves) == "2").await;
        pair
    }

    fn ask(&self, sql: &str) -> String {
        self.server.run("postgres", sql).unwrap()
    }

    fn client(&self, number: usize) -> TestClient {
        self.nodes[number % 2].client.clone()
    }

    /// Returns the leader and its epoch.
    fn leader(&self) -> (usize, i64) {
        let sql = "SELECT n.pid, n.epoch FROM posthaste.shards s JOIN posthaste.nodes n ON n.epoch = s.epoch WHERE s.shard = 0";
        let found = self.ask(sql);
        let (pid, epoch) = found.split_once('|').unwrap();
        let is_it = |node: &TestNode| node.pid().to_string() == pid;
        (self.nodes.iter().position(is_it).unwrap(), epoch.parse().unwrap())
    }

    async fn all_is_delivered(&self) {
        let live = "SELECT count(*) FROM posthaste.deliveries_open";
        wait_until("nothing is pending", WAIT_LIMIT, async || self.ask(live) == "0").await;
    }
}

/// Returns how often each mail was received, by its id.
fn times_by_mail(post: &mail::TestMailServer) -> BTreeMap<String, usize> {
    let mut times = BTreeMap::new();
    for mail in post.mails() {
        *times.entry(mail.header("Message-ID").to_owned()).or_default() += 1;
    }
    times
}

/// Makes `count` dead letters, in all apps, at these nodes in turn.
async fn let_die(nodes: &[TestClient], count: usize, dead: &mut BTreeSet<String>) {
    for number in 0..count {
        dead.insert(mail::make_dead_letter(&nodes[number % nodes.len()], APPS[number % APPS.len()]).await);
    }
}

/// Returns the ids of the mails about this dead letter.
fn mails_about(post: &mail::TestMailServer, delivery: &str) -> BTreeSet<String> {
    let link = format!("/deliveries/{delivery}\n");
    let mails = post.mails().into_iter().filter(|mail| mail.body.contains(&link));
    mails.map(|mail| mail.header("Message-ID").to_owned()).collect()
}

async fn all_are_mailed(pair: &NodePair, post: &mail::TestMailServer, dead: &BTreeSet<String>) {
    let waiting = "SELECT count(*) FROM posthaste.notices WHERE email_state = 1";
    wait_until("every notice is mailed", WAIT_LIMIT, async || {
        dead.iter().all(|delivery| !mails_about(post, delivery).is_empty()) && pair.ask(waiting) == "0"
    })
    .await;
    for delivery in dead {
        let mails = mails_about(post, delivery);
        assert_eq!(mails.len(), 1, "{delivery}: {mails:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_mail_each_notice_once_also_when_the_leader_is_killed_among_many() {
    let (post, receiver) = (mail::TestMailServer::start("starttls").await, TestReceiver::start().await);
    let mut pair = NodePair::start([(); 2].map(|()| mail::home(&post, "starttls"))).await;
    for app in APPS {
        mail::create_app(&pair.client(0), &receiver, app, None).await;
    }
    let other = pair.client(1);
    let knows = async || other.get("/v1/apps/mill/endpoints/shop").await.status == 200;
    wait_until("the other knows the endpoints", WAIT_LIMIT, knows).await;
    let both = [pair.client(0), pair.client(1)];
    let mut dead = BTreeSet::new();
    let_die(&both, NOTICES_BEFORE, &mut dead).await;
    all_are_mailed(&pair, &post, &dead).await;
    let in_peace = times_by_mail(&post);
    assert!(in_peace.values().all(|times| *times == 1), "{in_peace:?}");

    let (leader, _) = pair.leader();
    let survivor = pair.client(leader + 1);
    let_die(&both, NOTICES_AFTER, &mut dead).await;
    wait_until("it mails", WAIT_LIMIT, async || post.mails().len() >= in_peace.len() + MAILED_BEFORE_KILL)
        .await;
    // The mail server takes the next one, but its sender gets no answer.
    post.answers(&json!({ "data_takes": 60 }));
    let so_far = post.mails().len();
    wait_until("one is on its way", WAIT_LIMIT, async || post.mails().len() > so_far).await;
    let sent = "posthaste_mails_total{outcome=\"sent\"}";
    assert_eq!(survivor.metric(sent).await as usize, 0, "one of them mails");
    pair.nodes[leader].kill().await;
    let before = post.mails();
    let on_its_way = before.last().unwrap().header("Message-ID").to_owned();
    post.answers(&json!({}));
    let left = pair.ask("SELECT count(*) FROM posthaste.notices WHERE email_state = 1");
    let_die(std::slice::from_ref(&survivor), NOTICES_AFTER, &mut dead).await;
    all_are_mailed(&pair, &post, &dead).await;
    let (mails, times) = (post.mails().len(), times_by_mail(&post));
    let twice: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
    report(format_args!(
        "two nodes, kill -9 of the one that mails: dead_letters={} mails={mails} waiting_at_the_kill={left} twice={}",
        dead.len(),
        twice.len()
    ));
    assert_eq!(twice, [(&on_its_way, &2)], "only the mail that was being sent");
    assert_eq!(survivor.metric(sent).await as usize, mails - before.len(), "the other sent the rest");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_whose_leader_is_killed_is_finished_by_the_other_node_and_replays_each_once() {
    let receiver = TestReceiver::start().await;
    let mut pair = NodePair::start([(); 2].map(|()| NodeFolder::new())).await;
    let client = pair.client(0);
    client.make_app("a").await;
    client.make_endpoint("a", "e", &receiver.url("/e"), json!({})).await;
    let events: Vec<_> = (0..EVENTS).map(|n| json!({ "type": "t", "data": n })).collect();
    client.post("/v1/apps/a/events/batch", &json!({ "events": events })).await.expect(200);
    pair.all_is_delivered().await;
    assert_eq!(receiver.count_at("/e"), EVENTS);

    let (leader, epoch) = pair.leader();
    let survivor = pair.client(leader + 1);
    let knows = async || survivor.get("/v1/apps/a/endpoints/e").await.status == 200;
    wait_until("the other node knows the endpoint", WAIT_LIMIT, knows).await;
    let body = json!({ "endpoint_id": "e", "status": ["delivered"], "per_second": 50 });
    let replay = survivor.post("/v1/apps/a/replays", &body).await.expect(201);
    let path = format!("/v1/apps/a/replays/{}", replay["id"].as_str().unwrap());
    let is_under_way = async || receiver.count_at("/e") > EVENTS + EVENTS / 4;
    wait_until("it is well under way", WAIT_LIMIT, is_under_way).await;
    pair.nodes[leader].kill().await;
    let in_flight =
        pair.ask(&format!("SELECT count(*) FROM posthaste.deliveries_open WHERE queue = -{epoch}"));
    let reached = survivor.get(&path).await.expect(200);
    assert_eq!(reached["state"], "running", "{reached:#}");
    let done = wait_for("the other finishes it", WAIT_LIMIT, async || {
        let replay = survivor.get(&path).await.expect(200);
        (replay["state"] == "finished").then_some(replay)
    })
    .await;
    assert_eq!((&done["replayed"], &done["refused"]), (&json!(EVENTS), &json!(0)), "{done:#}");
    pair.all_is_delivered().await;
    let copies = "SELECT count(*), count(DISTINCT replay_of) FROM posthaste.deliveries_ended WHERE replay_of IS NOT NULL";
    assert_eq!(pair.ask(copies), format!("{EVENTS}|{EVENTS}"), "each was replayed once");
    let mut came: HashMap<String, usize> = HashMap::new();
    for receipt in receiver.receipts_at("/e") {
        *came.entry(receipt.id().to_owned()).or_default() += 1;
    }
    let repeated = came.values().filter(|times| **times > 2).count();
    report(format_args!(
        "two nodes, kill -9 of the one that replays: replayed={} at_the_kill={} in_flight={in_flight} repeated={repeated}",
        done["replayed"], reached["replayed"]
    ));
    assert!(came.len() == EVENTS && came.values().all(|times| *times >= 2), "{came:?}");
    assert!(repeated <= in_flight.parse().unwrap(), "{repeated} of {in_flight}");
}
