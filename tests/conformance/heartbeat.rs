//! Heartbeats and takeovers in hard cases: a distant database, a client frozen in the middle of a batch, and a copied machine.

use crate::{
    fixture::NOW,
    postgres::{self, Database},
    sqlite::block_on,
    two_nodes::{Node, TwoNodes, play, wait_until},
};
use posthaste::store::cluster::Heartbeat;
use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    time::Duration,
};
use tokio::time::Instant;

#[test]
fn a_heartbeat_takes_one_round_trip() {
    let database = Database::new();
    let (wire, address) = database.wired();
    let store = postgres::open(&address).unwrap();
    block_on(store.heartbeat(Heartbeat::default())).unwrap().expect("it lives");
    let round_trip = Duration::from_millis(400);
    wire.delay(round_trip);
    let begun = Instant::now();
    block_on(store.heartbeat(Heartbeat::default())).unwrap().expect("it lives");
    let took = begun.elapsed();
    println!("a beat took {took:?} where a round trip takes {round_trip:?}");
    assert!(took >= round_trip && took < 2 * round_trip, "{took:?}");
}

#[test]
fn heartbeats_wait_neither_for_each_other_nor_for_other_statements() {
    let database = Database::new();
    let (wire, address) = database.wired();
    let store = postgres::open(&address).unwrap();
    block_on(store.heartbeat(Heartbeat::default())).unwrap().expect("it lives");
    let round_trip = Duration::from_millis(500);
    wire.delay(round_trip);
    let begun = Instant::now();
    let (looked, beats) = (store.nodes(), [(); 4].map(|()| store.heartbeat(Heartbeat::default())));
    for heartbeat in beats {
        block_on(heartbeat).unwrap().expect("it lives");
    }
    block_on(looked).unwrap();
    let took = begun.elapsed();
    // Bytes that arrive during the wire's delay are forwarded together with the next ones.
    assert!(took < 3 * round_trip, "{took:?}");
}

/// A raw database client that sends and reads only on command.
struct Raw(UnixStream);

impl Raw {
    fn connect(database: &Database) -> Self {
        let mut raw = Self(Database::socket());
        let mut words = 196_608_u32.to_be_bytes().to_vec();
        words.extend(format!("user\0posthaste\0database\0{}\0\0", database.name()).bytes());
        raw.send(None, &words);
        raw.read_until_ready();
        raw
    }

    fn send(&mut self, kind: Option<u8>, words: &[u8]) {
        let length = u32::try_from(words.len() + 4).unwrap().to_be_bytes();
        self.0.write_all(&[kind.as_slice(), &length, words].concat()).unwrap();
    }

    fn ask(&mut self, sql: &str) {
        self.send(Some(b'Q'), format!("{sql}\0").as_bytes());
    }

    fn read_until_ready(&mut self) {
        loop {
            let mut head = [0; 5];
            self.0.read_exact(&mut head).unwrap();
            let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize - 4;
            self.0.read_exact(&mut vec![0; length]).unwrap();
            match head[0] {
                b'E' => panic!("the server refuses"),
                b'Z' => return,
                _ => {}
            }
        }
    }
}

/// Simulates a process that is stopped during a long answer: the server waits for it to read on, and the timeout for idle
/// transactions does not apply.
async fn a_client_frozen_in_a_batch_does_not_prevent_a_takeover(mut pair: TwoNodes) {
    let id = pair.other.accept_leased(pair.fixture.one_with_permit()).await.delivery.id;
    let mut frozen = Raw::connect(pair.shared.the_database());
    frozen.ask(&format!(
        "BEGIN; SET LOCAL idle_in_transaction_session_timeout = '1s';
         UPDATE posthaste.writer_batches SET batch = batch + 1 WHERE epoch = {} AND writer = 0",
        pair.other.epoch
    ));
    frozen.read_until_ready();
    frozen.ask("SELECT repeat('x', 1000) FROM generate_series(1, 1000000)");
    let sending = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'ClientWrite'";
    wait_until("the server waits for it", async || pair.shared.run(sending) == "1").await;
    pair.age_node();
    pair.end_lease();
    let begun = Instant::now();
    assert_eq!(pair.take_over().await, Some(1));
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(6), "{took:?}");
    assert!(pair.fixture.delivery(id).await.state.is_waiting());
    assert_eq!(pair.shared.run(sending), "0");
}

/// Simulates a standby that was promoted before it had received everything. A heartbeat notices it, without a write.
async fn a_database_that_lost_commits_is_noticed_by_the_next_heartbeat(mut pair: TwoNodes) {
    drop(pair.other.accept_leased(pair.fixture.one_with_permit()).await);
    pair.other.store.heartbeat(Heartbeat::default()).await.unwrap().expect("it lives");
    assert!(pair.other.store.can_record());
    let epoch = pair.other.epoch;
    pair.shared
        .run(&format!("UPDATE writer_batches SET batch = batch - 1 WHERE epoch = {epoch} AND writer = 0"));
    assert_eq!(pair.other.store.heartbeat(Heartbeat::default()).await.unwrap(), None);
    assert!(!pair.other.store.can_record(), "it begins nothing");
    let joined = pair.other.store.join(NOW).await.unwrap();
    assert_ne!(joined.epoch, epoch);
    pair.other.store.heartbeat(Heartbeat::default()).await.unwrap().expect("it lives again");
}

/// A copied machine takes itself for the same one and finds no such process.
async fn a_node_with_heartbeats_is_alive_although_its_process_is_not_found(mut pair: TwoNodes) {
    let id = pair.other.accept_leased(pair.fixture.one_with_permit()).await.delivery.id;
    pair.set("pid = 2147483646", pair.other.epoch);
    let joining = Node::beside(&pair.fixture);
    let living = async {
        loop {
            pair.other.view().await;
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    };
    let third = tokio::select! {
        third = joining => third,
        () = living => unreachable!("it lives for ever"),
    };
    assert!(!pair.fixture.delivery(id).await.state.is_waiting(), "it is still carried");
    // Without heartbeats the node counts as dead, long before its lease ends.
    let begun = Instant::now();
    third.store.join(NOW).await.unwrap();
    assert!(pair.fixture.delivery(id).await.state.is_waiting());
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert_eq!(pair.other.store.heartbeat(Heartbeat::default()).await.unwrap(), None);
}

play! { database:
    a_database_that_lost_commits_is_noticed_by_the_next_heartbeat,
    a_client_frozen_in_a_batch_does_not_prevent_a_takeover,
    a_node_with_heartbeats_is_alive_although_its_process_is_not_found,
}
