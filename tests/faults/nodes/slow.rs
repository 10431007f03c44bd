//! Three nodes whose database answers two seconds later than before, for longer than a lease: they continue slowly, or stop sending
//! and report it, and none of them exits.

use super::{
    faults::BACK_WITHIN,
    fixture::{ClusterFixture, PLAIN},
};
use crate::{
    harness::{TestAnswer, TestClient, report},
    producer::Producers,
};
use std::time::Duration;
use tokio::time::Instant;

const LATE: Duration = Duration::from_secs(2);
const SLOW_FOR: Duration = Duration::from_secs(40);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_seconds_more_for_every_answer_make_three_nodes_slow_but_lose_nothing() {
    let mut fixture = ClusterFixture::set("").await;
    let load = fixture.load().await;
    let before = epochs(&fixture).await;
    let mut in_flight = fixture.in_flight().await;
    fixture.wires.iter().for_each(|wire| wire.delay(LATE));
    let (begun, sent_so_far) = (Instant::now(), fixture.receiver.receipts().len());
    let accepted_so_far = fixture.producers.sent().accepted.len();
    let until = begun + SLOW_FOR / 2;
    let waiting: Vec<_> = (0..3)
        .map(|member| {
            let (producers, client) = (fixture.producers.clone(), fixture.client(member));
            tokio::spawn(publish_patiently(producers, client, member, until))
        })
        .collect();
    while begun.elapsed() < SLOW_FOR {
        for member in 0..3 {
            assert_eq!(fixture.client(member).get("/livez").await.status, 200);
        }
        in_flight = in_flight.max(fixture.in_flight().await);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let mut patient_answers = Vec::new();
    for patient in waiting {
        patient_answers.push(patient.await.unwrap());
    }
    let sent = fixture.receiver.receipts().len() - sent_so_far;
    let accepted = fixture.producers.sent().accepted.len() - accepted_so_far;
    let kept = epochs(&fixture).await.iter().filter(|epoch| before.contains(epoch)).count();
    fixture.wires.iter().for_each(|wire| wire.delay(Duration::ZERO));
    let back = fixture.all_are_back().await;
    fixture.some_are_accepted(60).await;
    let verdict = fixture.verdict("2 s more for every answer", load).await.in_flight(in_flight).back(back);
    report(format_args!(
        "three nodes, meanwhile: epochs_kept={kept} requests_sent={sent} events_accepted={accepted}"
    ));
    must_be_honest(&patient_answers);
    if !verdict.is_kept() {
        fixture.show_troubles();
    }
    verdict.must_be_kept();
    assert!(back < BACK_WITHIN, "{back:?}");
    assert_eq!(kept, 3, "no node's lease depends on the latency of its database");
    for member in &mut fixture.members {
        assert_eq!(member.node.stop().await, Some(0), "{}", member.node.log());
    }
}

/// Answers to a producer that waits for each answer, and tries again when Retry-After says.
#[derive(Default)]
struct PatientAnswers {
    answers: Vec<(TestAnswer, Duration)>,
    /// How often the client of these tests gave up, which it does after half a minute.
    unanswered: usize,
}

/// Publishes one event after the other to this node, each under an id of its own.
async fn publish_patiently(
    producers: Producers,
    client: TestClient,
    member: usize,
    until: Instant,
) -> PatientAnswers {
    let mut patient_answers = PatientAnswers::default();
    while Instant::now() < until {
        let id = format!("patient{member}x{}-0", patient_answers.answers.len() + patient_answers.unanswered);
        let (event, begun) = (producers.event(&id, PLAIN), Instant::now());
        let Ok(answer) = client.try_publish("a", &event).await else {
            patient_answers.unanswered += 1;
            continue;
        };
        let took = begun.elapsed();
        let again_after = answer.header("retry-after").parse().unwrap_or_default();
        let noted = TestAnswer { headers: answer.headers.clone(), body: answer.body.clone(), ..answer };
        producers.sent().note(&id, Ok(noted));
        patient_answers.answers.push((answer, took));
        tokio::time::sleep(Duration::from_secs(again_after)).await;
    }
    patient_answers
}

/// Asserts that each answer is either 202, or 503 with a Retry-After.
#[track_caller]
fn must_be_honest(patient_answers: &[PatientAnswers]) {
    let answers = || patient_answers.iter().flat_map(|patient_answers| &patient_answers.answers);
    let accepted = answers().filter(|(answer, _)| answer.status == 202).count();
    let slowest = answers().map(|(_, took)| *took).max().unwrap_or_default();
    report(format_args!(
        "three nodes, 2 s more for every answer, to who waits: answered={} accepted={accepted} unanswered={} slowest={slowest:.1?}",
        answers().count(),
        patient_answers.iter().map(|patient_answers| patient_answers.unanswered).sum::<usize>()
    ));
    assert_eq!(
        patient_answers.iter().map(|patient_answers| patient_answers.unanswered).sum::<usize>(),
        0,
        "every publish is answered in time"
    );
    for (answer, _) in answers() {
        let comes_again = answer.header("retry-after").parse::<u32>().is_ok();
        assert!(answer.status == 202 || answer.status == 503 && comes_again, "{answer:?}");
    }
}

async fn epochs(fixture: &ClusterFixture) -> Vec<i64> {
    let epochs = fixture.query("SELECT epoch FROM posthaste.nodes WHERE dead = 0").await;
    epochs.lines().map(|epoch| epoch.parse().unwrap()).collect()
}
