//! Three nodes whose database answers everything two seconds later than it did, for longer than a lease: they go on slowly, or stop
//! sending and say so, and none of them ends.

use super::{faults::BACK_WITHIN, stage::Stage};
use crate::harness::report;
use std::time::Duration;
use tokio::time::Instant;

const LATE: Duration = Duration::from_secs(2);
const SLOW_FOR: Duration = Duration::from_secs(40);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_seconds_more_for_every_answer_cost_three_nodes_time_and_nothing_else() {
    let mut stage = Stage::set("").await;
    let load = stage.load().await;
    let before = epochs(&stage).await;
    let mut in_flight = stage.carried().await;
    stage.wires.iter().for_each(|wire| wire.delay(LATE));
    let (begun, sent_so_far) = (Instant::now(), stage.receiver.receipts().len());
    let accepted_so_far = stage.producers.sent().accepted.len();
    while begun.elapsed() < SLOW_FOR {
        for member in 0..3 {
            assert_eq!(stage.client(member).get("/livez").await.status, 200);
        }
        in_flight = in_flight.max(stage.carried().await);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let sent = stage.receiver.receipts().len() - sent_so_far;
    let accepted = stage.producers.sent().accepted.len() - accepted_so_far;
    let kept = epochs(&stage).await.iter().filter(|epoch| before.contains(epoch)).count();
    stage.wires.iter().for_each(|wire| wire.delay(Duration::ZERO));
    let back = stage.all_are_back().await;
    stage.some_are_accepted(60).await;
    let verdict = stage.judge("2 s more for every answer", load).await.in_flight(in_flight).back(back);
    report(format_args!(
        "three nodes, meanwhile: epochs_kept={kept} requests_sent={sent} events_accepted={accepted}"
    ));
    if !verdict.is_kept() {
        stage.show_troubles();
    }
    verdict.must_be_kept();
    assert!(back < BACK_WITHIN, "{back:?}");
    assert_eq!(kept, 3, "nobody's lease depends on how far away its database is");
    for member in &mut stage.members {
        assert_eq!(member.node.stop().await, Some(0), "{}", member.node.log());
    }
}

async fn epochs(stage: &Stage) -> Vec<i64> {
    let epochs = stage.ask("SELECT epoch FROM posthaste.nodes WHERE dead = 0").await;
    epochs.lines().map(|epoch| epoch.parse().unwrap()).collect()
}
