//! Another client locks one of the tables, as a careless migration of a product in the same database might. The node waits, refuses
//! publishes meanwhile, and leaves no connection behind that waits for longer than the node itself.

use crate::{
    database::{DatabaseFixture, RECOVERY_LIMIT, WAIT_LIMIT},
    harness::{report, wait_until},
};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

const LOCKED_FOR: Duration = Duration::from_secs(30);
const OBSERVED_FOR: Duration = Duration::from_secs(29);
/// Waiting connections: of the writer, of the check whether it wrote, and of readers.
const WAITING_MAX: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_table_is_waited_for_with_few_connections() {
    let database = Arc::new(DatabaseFixture::new("").await);
    let mut node = database.start().await;
    let running = database.producers.start(4, Duration::from_millis(8));
    database.some_are_accepted().await;
    let held = {
        let (database, seconds) = (database.clone(), LOCKED_FOR.as_secs());
        let sql = format!("BEGIN; LOCK TABLE posthaste.events; SELECT pg_sleep({seconds}); COMMIT");
        tokio::task::spawn_blocking(move || database.run(&sql))
    };
    let begun = Instant::now();
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    let all = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'";
    let count = |sql: &str| -> usize { database.run(sql).parse().unwrap() };
    wait_until("a connection waits for it", WAIT_LIMIT, async || count(waiting) > 0).await;
    let (mut most_waiting, mut most) = (0, 0);
    while begun.elapsed() < OBSERVED_FOR {
        most_waiting = most_waiting.max(count(waiting));
        most = most.max(count(all));
        assert_eq!(node.client.get("/livez").await.status, 200);
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    let refused = database.producers.sent().refused.clone();
    held.await.unwrap();
    let back = database.time_to_recover().await;
    database.producers.finish(running).await;
    let figures = database.finish(&mut node).await;
    report(format_args!(
        "one node, a table locked for 30 s: {figures} back={back:?} waiting={most_waiting} connections={most} refused={refused:?}"
    ));
    figures.assert_faultless();
    assert_eq!((figures.duplicates, figures.unknown), (0, 0), "{figures}");
    assert_eq!(refused.keys().collect::<Vec<_>>(), [&503], "nothing but 503 was said");
    assert!(most_waiting <= WAITING_MAX, "{most_waiting} connections wait");
    assert!(back < RECOVERY_LIMIT, "{back:?}");
}
