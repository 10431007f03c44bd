//! `posthaste dev` as a new user meets it: an empty folder, and the printed commands, pasted.

use crate::harness::{NodeFolder, wait_for, wait_until};
use serde_json::Value;
use std::{process::Command, time::Duration};

const WAIT_LIMIT: Duration = Duration::from_secs(30);

/// The commands that the welcome shows: from `curl` to the end of its paragraph.
fn printed_commands(said: &str) -> Vec<String> {
    let paragraphs = said.split("\n\n").filter(|paragraph| paragraph.trim_start().starts_with("curl "));
    paragraphs.map(|paragraph| paragraph.trim().to_owned()).collect()
}

fn paste(command: &str) -> Value {
    let output = Command::new("sh").args(["-c", command]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command}: {output:?} (a missing curl is installed by ./check)");
    serde_json::from_str(&said).unwrap_or_else(|error| panic!("{command}: {error}: {said}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_minute_works_as_printed_and_shows_a_retry() {
    let mut home = NodeFolder::new();
    home.unset_all();
    assert_eq!(std::fs::read_dir(home.run_folder()).unwrap().count(), 0, "it starts from nothing");
    let mut dev = home.spawn(&[], &["dev", "--listen", "127.0.0.1:0"]);
    let commands = wait_for("it says what to paste", WAIT_LIMIT, async || {
        let said = dev.log();
        said.contains("Ctrl-C stops").then(|| printed_commands(&said))
    })
    .await;
    let [publish, look] = &commands[..] else { panic!("{commands:?}") };
    assert!(dev.log().contains("admin key   phk_"), "{}", dev.log());
    for _ in 0..3 {
        let event = paste(publish);
        assert_eq!(event["deliveries"][0]["endpoint_id"], "sample-receiver", "{event:#}");
    }
    wait_until("the sample receiver has all three", WAIT_LIMIT, async || {
        dev.log().matches("receiver: received").count() == 3
    })
    .await;
    assert_eq!(dev.log().matches("receiver: refused on purpose").count(), 1, "{}", dev.log());
    let counts = wait_for("all are delivered", WAIT_LIMIT, async || {
        let page = paste(look);
        let deliveries = page["data"].as_array().unwrap().clone();
        let all = deliveries.iter().all(|delivery| delivery["status"] == "delivered");
        all.then(|| {
            deliveries.iter().map(|delivery| delivery["attempt_count"].as_u64().unwrap()).collect::<Vec<_>>()
        })
    })
    .await;
    assert_eq!(
        (counts.len(), counts.iter().sum::<u64>()),
        (3, 4),
        "one of three took two attempts: {counts:?}"
    );
    for (command, words) in [(" deliveries list ", "order.created"), (" inspect ", "protections: 8 of 8")] {
        let line = dev.log().lines().find(|line| line.contains(command)).unwrap().trim().to_owned();
        let pasted = Command::new("sh").args(["-c", &line]).output().unwrap();
        let said = String::from_utf8_lossy(&pasted.stdout);
        assert!(pasted.status.success() && said.contains(words), "{line}\n{said}");
    }
    assert!(home.run_folder().join("posthaste-data/posthaste.db").exists());
    assert_eq!(dev.stop().await, Some(0));

    let mut again = home.spawn(&[], &["dev", "--listen", "127.0.0.1:0"]);
    let commands = wait_for("a second start works too", WAIT_LIMIT, async || {
        let said = again.log();
        said.contains("Ctrl-C stops").then(|| printed_commands(&said))
    })
    .await;
    assert_eq!(paste(&commands[1])["data"].as_array().unwrap().len(), 3, "it remembers");
    assert_eq!(again.stop().await, Some(0));
}
