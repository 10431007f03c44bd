//! Failover to a promoted standby: nodes that know both servers continue there. If the standby confirmed every commit nothing is
//! lost; the control has one that had stopped replicating.

use super::{
    faults::BACK_WITHIN,
    fixture::{ClusterFixture, OPTIONS, WAIT_LIMIT},
    verdict::FaultOutcome,
};
use crate::harness::{NodeFolder, database::TestDatabaseServer, wait_until};
use std::sync::Arc;
use tokio::time::Instant;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_standby_has_every_commit_and_three_nodes_find_it_by_themselves() {
    let verdict = fail_over(true).await;
    verdict.must_be_kept_and_repeat_nothing();
    assert!(verdict.back.unwrap() < BACK_WITHIN, "{verdict}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn control_of_the_standby_one_that_lagged_behind_loses_what_was_confirmed() {
    let verdict = fail_over(false).await;
    verdict.must_be_broken();
    assert!(verdict.lost + verdict.wrong > 0, "{verdict}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_started_on_a_standby_waits_until_that_is_promoted() {
    let primary = TestDatabaseServer::with_options(OPTIONS);
    for is_prepared in [false, true] {
        let mut home = NodeFolder::new();
        if is_prepared {
            home.set("STORE", &primary.address("postgres"));
            assert_eq!(home.start().await.stop().await, Some(0));
        }
        let standby = primary.standby(OPTIONS);
        home.set("STORE", &standby.address("postgres"));
        let mut node = home.spawn(&[], &["serve"]);
        let is_told = async || node.log().contains("cannot be used yet") && node.log().contains("read-only");
        wait_until("it waits for it", WAIT_LIMIT, is_told).await;
        assert!(!node.has_ended(), "{}", node.log());
        standby.run("postgres", "SELECT pg_promote()").unwrap();
        node.wait_ready().await;
        assert_eq!(node.stop().await, Some(0), "{}", node.log());
    }
}

async fn fail_over(is_followed: bool) -> FaultOutcome {
    let primary = Arc::new(TestDatabaseServer::with_options(OPTIONS));
    let standby = Arc::new(primary.standby(OPTIONS));
    if is_followed {
        configure(&primary, "synchronous_standby_names = '*'");
    }
    let state = if is_followed { "sync" } else { "async" };
    let streams = format!("SELECT count(*) FROM pg_stat_replication WHERE sync_state = '{state}'");
    let is_streaming = async |count: &str| primary.run("postgres", &streams).unwrap() == count;
    wait_until("the standby follows", WAIT_LIMIT, async || is_streaming("1").await).await;
    let both = format!(
        "postgres:///postgres?host={}&host={}&user=posthaste&target_session_attrs=read-write",
        primary.folder, standby.folder
    );
    let mut fixture = ClusterFixture::on(primary.clone(), [(); 3].map(|()| both.clone()), Vec::new()).await;
    let load = fixture.load().await;
    if !is_followed {
        configure(&standby, "primary_conninfo = ''");
        wait_until("the standby follows no more", WAIT_LIMIT, async || is_streaming("0").await).await;
        fixture.some_are_accepted(60).await;
    }
    let in_flight = fixture.in_flight().await;
    fixture.run_on_server(TestDatabaseServer::crash).await;
    fixture.server = standby;
    fixture.query("SELECT pg_promote()").await;
    let promoted_at = Instant::now();
    fixture.all_are_back().await;
    let back = promoted_at.elapsed();
    fixture.some_are_accepted(60).await;
    for member in &fixture.members {
        let has_said_so = member.node.log().contains("it lost some that it had confirmed");
        assert!(!(has_said_so && is_followed), "{}", member.node.log());
    }
    fixture.verdict("a promoted standby", load).await.in_flight(in_flight).back(back)
}

fn configure(server: &TestDatabaseServer, setting: &str) {
    for sql in [&format!("ALTER SYSTEM SET {setting}"), "SELECT pg_reload_conf()"] {
        server.run("postgres", sql).unwrap();
    }
}
