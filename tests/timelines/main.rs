//! Each built-in contract in virtual time, on the real service, engine and store: every attempt at its instant for a
//! receiver that always fails, how the delivery ends, the meaning of each response, the notices, and what is left after
//! months.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up should fail where it stands")]

mod answers;
mod node_builder;
mod ends;
mod config_sync;
mod health;
mod jitter;
mod mails;
mod nodes;
mod not_sent;
mod pacing;
mod fake_mail_server;
mod probing;
mod replays;
mod retention;
mod schedules;
mod fixture;
mod enabled_again;
mod webhooks;
