//! A database that goes away while a node starts on it, at each of its commits in turn. It is waited for, wherever that is: a node that
//! ended instead would be started again by whoever looks after it, to end again.

use super::{LIMIT, World};
use crate::harness::{database::address, report, wait_until, wire::Wire};
use std::{collections::BTreeMap, time::Duration};

/// More than a start has: it ends long before.
const COMMITS_MAX: u32 = 32;

/// How far a start was that was cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reached {
    /// The database, which it opens and enters.
    Database,
    /// Its place among the nodes.
    Place,
    /// What is stored: it is measured, and the configuration loaded.
    Contents,
    /// Its engine, which learns what waits.
    Engine,
    /// Everything.
    End,
}

impl Reached {
    /// By what it says while the database is away, and whether it had joined by then.
    fn by(said: &str, has_joined: bool) -> Self {
        if said.contains("could not read yet what waits in the store") {
            Self::Engine
        } else if said.contains("posthaste is ready") {
            Self::End
        } else if !said.contains("the database is unreachable; retrying until it answers") {
            Self::Database
        } else if has_joined {
            Self::Contents
        } else {
            Self::Place
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_goes_away_at_any_commit_of_a_start_is_waited_for() {
    let mut world = World::new("").await;
    let mut node = world.start().await;
    world.producers.publish("before").await;
    assert_eq!(node.stop().await, Some(0));
    let wire = Wire::new(&world.server.folder);
    world.home.set("STORE", &address(&wire.folder(), "postgres"));
    // Whoever joins counts this up, and then nobody does who has no one to take over from.
    let steps = || world.run("SELECT coalesce(max(batch), 0) FROM posthaste.ledger WHERE writer = 1");
    let mut met: BTreeMap<Reached, u32> = BTreeMap::new();
    // The first four look which days there are, and with the fifth it enters. The others are of whoever joins, of its heart, and of
    // whoever reads, who commits as well.
    for skipped in 0..COMMITS_MAX {
        wire.stay_cut();
        wire.lose_the_answer_to_a_commit_after(skipped);
        let mut node = world.home.spawn(&[], &["serve"]);
        wait_until("it is cut", LIMIT, async || wire.has_lost_it()).await;
        // Whoever waits has tried again by then, in vain.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let (said, steps_before) = (node.log(), steps());
        wire.mend();
        node.wait_ready().await;
        let has_joined = steps_before != "0" && steps() == steps_before;
        assert_eq!(node.stop().await, Some(0), "{}", node.log());
        let reached = Reached::by(&said, has_joined);
        *met.entry(reached).or_default() += 1;
        if reached == Reached::End {
            break;
        }
    }
    report(format_args!("one node, cut at each commit of its start: {met:?}"));
    let all = [Reached::Database, Reached::Place, Reached::Contents, Reached::Engine, Reached::End];
    assert!(met.keys().copied().eq(all), "it was not cut everywhere: {met:?}");
}
