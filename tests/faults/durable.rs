//! The promise of a 202: the event is on the disk, not merely in memory.

use crate::harness::NodeFolder;
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

const FLUSH_TAKES: Duration = Duration::from_millis(150);
const EVENTS: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_202_waits_for_the_disk() {
    let home = NodeFolder::new();
    let slow = format!("inject=fsync,fdatasync:delay_exit={}", FLUSH_TAKES.as_micros());
    let strace = ["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e", &slow];
    let node = home.start_under(&strace, &[]).await;
    node.client.make_app("a").await;
    for n in 0..EVENTS {
        // Time for pending flushes to end: one that an earlier answer did not wait for must not hide this one.
        tokio::time::sleep(FLUSH_TAKES * 3).await;
        let sent_at = Instant::now();
        node.client.publish("a", &json!({ "type": "t", "data": n })).await;
        let took = sent_at.elapsed();
        assert!(took >= FLUSH_TAKES, "answered after {took:?}, a flush takes {FLUSH_TAKES:?}");
    }
}
