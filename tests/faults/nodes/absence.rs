//! Three nodes whose database is unreachable for a long time: they report it, send no request whose result they could not record,
//! and recover by themselves. The controls have a database that comes back early, and one that lost confirmed commits.

use super::{faults::BACK_WITHIN, fixture::ClusterFixture, verdict::FaultOutcome};
use crate::{
    database::reports_outage,
    harness::{
        database::{NO_BACKGROUND_WRITES, TestDatabaseServer},
        report, wait_until,
    },
};
use std::{collections::BTreeMap, fmt, time::Duration};
use tokio::time::Instant;

/// By then requests in flight have arrived, and every node has noticed the outage.
const QUIET_AFTER: Duration = Duration::from_secs(3);
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Limit of log lines per minute: a log that repeats the same line a thousand times is useless.
const LINES_A_MINUTE: u64 = 600;
/// Duration of the outage in the controls.
const CONTROL_OUTAGE: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_lose_nothing_in_an_outage_of_their_database_of_a_minute() {
    let mut fixture = ClusterFixture::set("").await;
    be_away(&mut fixture, Duration::from_mins(1), Manipulation::Not).await.must_be_kept(&fixture);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: the database is away for ten minutes"]
async fn three_nodes_lose_nothing_in_an_outage_of_their_database_of_ten_minutes() {
    let mut fixture = ClusterFixture::set("").await;
    be_away(&mut fixture, Duration::from_mins(10), Manipulation::Not).await.must_be_kept(&fixture);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controls_of_the_outage_a_database_that_is_there_and_one_that_lost_commits() {
    let mut fixture = ClusterFixture::set(NO_BACKGROUND_WRITES).await;
    let there = be_away(&mut fixture, CONTROL_OUTAGE, Manipulation::StaysReachable).await;
    there.must_be_broken();
    assert!(there.sent > 0 && there.untrue > 0, "{there}");
    assert!(there.verdict.is_kept(), "and nothing else: {there}");

    let forgot = be_away(&mut fixture, CONTROL_OUTAGE, Manipulation::Forgets).await;
    forgot.must_be_broken();
    assert!(forgot.verdict.lost + forgot.verdict.wrong > 0, "{forgot}");
    assert_eq!(forgot.sent, 0, "{forgot}");
}

/// Manipulation of the database in a control.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manipulation {
    Not,
    /// The database comes back as soon as all nodes are quiet.
    StaysReachable,
    /// The database loses its last confirmed commits.
    Forgets,
}

/// Observations of three nodes during an outage of their database, and the verdict.
struct Outage {
    away: Duration,
    /// Answers during the outage that differ from the promised ones.
    untrue: usize,
    /// Requests that were sent meanwhile.
    sent: usize,
    /// Lines in all logs during the outage.
    lines: u64,
    refused: BTreeMap<u16, usize>,
    verdict: FaultOutcome,
}

impl Outage {
    fn is_kept(&self) -> bool {
        let most_lines = 3 * LINES_A_MINUTE * self.away.as_secs() / 60;
        self.verdict.is_kept()
            && self.verdict.repeats_nothing()
            && self.verdict.back.is_some_and(|back| back < BACK_WITHIN)
            && (self.untrue, self.sent) == (0, 0)
            && self.lines <= most_lines
            && self.refused.keys().eq([&503])
    }

    #[track_caller]
    fn must_be_kept(&self, fixture: &ClusterFixture) {
        report(self);
        if !self.is_kept() {
            fixture.show_troubles();
        }
        assert!(self.is_kept(), "{self}");
    }

    #[track_caller]
    fn must_be_broken(&self) {
        report(format_args!("control: {self}"));
        assert!(!self.is_kept(), "nothing was noticed: {self}");
    }
}

impl fmt::Display for Outage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { away, untrue, sent, lines, refused, verdict } = self;
        write!(out, "{verdict} away={away:?} sent_meanwhile={sent} untrue_meanwhile={untrue} ")?;
        write!(out, "refused={refused:?} lines_of_log={lines}")
    }
}

async fn be_away(fixture: &mut ClusterFixture, away: Duration, bent: Manipulation) -> Outage {
    let load = fixture.load().await;
    fixture.owner_of("paced").await;
    if bent == Manipulation::Forgets {
        fixture.run_on_server(TestDatabaseServer::stop_flushing).await;
        fixture.some_are_accepted(60).await;
    }
    let in_flight = fixture.in_flight().await;
    fixture.run_on_server(TestDatabaseServer::crash).await;
    let gone_at = Instant::now();
    tokio::time::sleep(QUIET_AFTER).await;
    let (sent_so_far, lines_so_far) = (fixture.receiver.receipts().len(), lines(fixture));
    if bent == Manipulation::StaysReachable {
        fixture.run_on_server(TestDatabaseServer::start_again).await;
        fixture.some_are_accepted(20).await;
    }
    let mut untrue = 0;
    while gone_at.elapsed() < away {
        for member in 0..3 {
            untrue += usize::from(!reports_outage(&fixture.client(member)).await);
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
    let sent = fixture.receiver.receipts().len() - sent_so_far;
    let lines = lines(fixture) - lines_so_far;
    if bent != Manipulation::StaysReachable {
        fixture.run_on_server(TestDatabaseServer::start_again).await;
    }
    if bent == Manipulation::Forgets {
        fixture.run_on_server(TestDatabaseServer::flush_again).await;
    }
    let back = fixture.all_are_back().await;
    let sends = async || fixture.receiver.receipts().len() > sent_so_far + sent;
    wait_until("they send again", BACK_WITHIN, sends).await;
    fixture.some_are_accepted(50).await;
    let refused = fixture.producers.sent().refused.clone().into_iter().collect();
    let verdict = fixture.verdict("the database was away", load).await.in_flight(in_flight).back(back);
    Outage { away, untrue, sent, lines, refused, verdict }
}

fn lines(fixture: &ClusterFixture) -> u64 {
    fixture.members.iter().map(|member| member.node.log().lines().count() as u64).sum()
}
