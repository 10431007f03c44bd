//! Fault tests of the real binary: kills, full disks, hostile receivers, floods.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up should fail where it stands")]

#[expect(dead_code, reason = "tests/api uses other parts of it")]
#[path = "../harness/mod.rs"]
mod harness;

mod age_store;
mod backlog;
mod backup;
mod certificates;
mod checker;
mod connection_shortage;
mod control;
mod crash;
mod database;
mod disk;
mod durable;
mod egress;
mod first_minute;
mod hostile;
mod inbox;
mod inbox_examples;
mod isolation;
mod kills;
mod locked;
mod mail;
mod migration;
mod nodes;
mod ordering;
mod pacing;
mod pooler;
mod producer;
mod refusals;
mod replays;
mod retention;
mod rotation;
mod secrets;
mod signatures;
mod ssrf;
mod stopping;
mod storage_limits;
mod versions;
