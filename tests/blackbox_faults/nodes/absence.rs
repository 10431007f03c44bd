//! Three nodes whose database is away for a long time: they say so, send nothing whose result they could not record, and go on by
//! themselves when it is back.

use super::{faults::BACK_WITHIN, stage::Stage};
use crate::harness::{database::Server, wait_until};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

/// By then whatever was on its way has arrived, and everybody has noticed.
const QUIET_AFTER: Duration = Duration::from_secs(3);
/// Lines of a log for each minute of it, at most: nobody finds anything in a log that says the same a thousand times.
const LINES_A_MINUTE: usize = 600;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minute_without_their_database_costs_three_nodes_nothing() {
    be_away(Duration::from_mins(1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: the database is away for ten minutes"]
async fn ten_minutes_without_their_database_cost_three_nodes_nothing() {
    be_away(Duration::from_mins(10)).await;
}

async fn be_away(away: Duration) {
    let mut stage = Stage::set("").await;
    let load = stage.load().await;
    stage.home_of("paced").await;
    let in_flight = stage.carried().await;
    stage.tell(Server::crash).await;
    let gone_at = Instant::now();
    tokio::time::sleep(QUIET_AFTER).await;
    let sent_so_far = stage.receiver.receipts().len();
    let lines: usize = stage.members.iter().map(|member| member.node.log().lines().count()).sum();
    while gone_at.elapsed() < away {
        for member in 0..3 {
            let client = stage.client(member);
            assert_eq!(client.get("/livez").await.status, 200);
            let ready = client.get("/readyz").await;
            assert_eq!(ready.expect(503)["reasons"][0]["code"], "store", "{}", ready.text());
            let refused = client.try_publish("a", &json!({ "type": "t", "data": 1 })).await.unwrap();
            assert_eq!(refused.expect(503)["code"], "unavailable");
            assert!(refused.header("retry-after").parse::<u32>().is_ok(), "{refused:?}");
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    assert_eq!(stage.receiver.receipts().len(), sent_so_far, "nothing whose result could not be recorded");
    let said = stage.members.iter().map(|member| member.node.log().lines().count()).sum::<usize>() - lines;
    stage.tell(Server::start_again).await;
    let back = stage.all_are_back().await;
    wait_until("they send again", BACK_WITHIN, async || stage.receiver.receipts().len() > sent_so_far).await;
    stage.some_are_accepted(50).await;
    let refused = stage.producers.sent().refused.clone();
    let verdict = stage.judge("the database was away", load).await.in_flight(in_flight).back(back);
    if !verdict.is_kept() {
        stage.show_troubles();
    }
    verdict.must_be_kept_and_repeat_nothing();
    println!("away for {away:?}: refused {refused:?}, {said} lines of log");
    assert_eq!(refused.keys().collect::<Vec<_>>(), [&503], "nothing but 503 was said");
    assert!(back < BACK_WITHIN, "{back:?}");
    let most = 3 * LINES_A_MINUTE * away.as_secs() as usize / 60;
    let log = stage.members[0].node.log();
    let tail: Vec<&str> = log.lines().rev().take(60).collect();
    assert!(said <= most, "{said} lines of log: {tail:#?}");
}
