//! A database that becomes unreachable while a node starts on it, at each of its commits in turn. The node must wait: if it ended, a
//! supervisor would start it again, to end again.

use super::{DatabaseFixture, WAIT_LIMIT};
use crate::harness::{database::address, database_proxy::DatabaseProxy, report, wait_until};
use std::{collections::BTreeMap, time::Duration};

/// More commits than a start has: the loop ends long before.
const COMMITS_MAX: u32 = 32;

/// The stage of a start at which it was cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum StartStage {
    /// Opening the database and getting an epoch.
    Database,
    /// Joining the cluster as a node.
    Place,
    /// Reading the store: its size, and the configuration.
    Contents,
    /// Starting the engine, which loads waiting deliveries.
    Engine,
    /// The start is complete.
    End,
}

impl StartStage {
    /// Derives the stage from the log while the database is unreachable, and from whether the node had joined by
    /// then.
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
async fn a_start_waits_for_a_database_that_fails_at_any_of_its_commits() {
    let mut database = DatabaseFixture::new("").await;
    let mut node = database.start().await;
    database.producers.publish("before").await;
    assert_eq!(node.stop().await, Some(0));
    let wire = DatabaseProxy::new(&database.server.folder);
    database.home.set("STORE", &address(&wire.folder(), "postgres"));
    // A node counts this up when it joins, and later only if it takes over from another.
    let steps =
        || database.run("SELECT coalesce(max(batch), 0) FROM posthaste.writer_batches WHERE writer = 1");
    let mut met: BTreeMap<StartStage, u32> = BTreeMap::new();
    // The first four commits read which daily partitions exist, and with the fifth the process gets its epoch. The others belong
    // to joining, to the heartbeat, and to readers, which commit as well.
    for skipped in 0..COMMITS_MAX {
        wire.stay_cut();
        wire.lose_the_answer_to_a_commit_after(skipped);
        let mut node = database.home.spawn(&[], &["serve"]);
        wait_until("it is cut", WAIT_LIMIT, async || wire.has_lost_it()).await;
        // A waiting node has tried again by then, in vain.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let (said, steps_before) = (node.log(), steps());
        wire.reconnect();
        node.wait_ready().await;
        let has_joined = steps_before != "0" && steps() == steps_before;
        assert_eq!(node.stop().await, Some(0), "{}", node.log());
        let reached = StartStage::by(&said, has_joined);
        *met.entry(reached).or_default() += 1;
        if reached == StartStage::End {
            break;
        }
    }
    report(format_args!("one node, cut at each commit of its start: {met:?}"));
    let all =
        [StartStage::Database, StartStage::Place, StartStage::Contents, StartStage::Engine, StartStage::End];
    assert!(met.keys().copied().eq(all), "it was not cut everywhere: {met:?}");
}
