//! Commands for users of a running server and for receivers, as real processes: `event-types`, `listen`, `verify`,
//! `check`.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up should fail where it stands")]

#[path = "../harness/mod.rs"]
#[expect(dead_code, unused_imports, reason = "shared by several targets, each of which uses its part")]
mod harness;

mod check;
mod command_output;
mod database;
mod event_types;
mod listen;
mod verify;
