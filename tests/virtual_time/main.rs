//! Each built-in contract in virtual time, on the real service, engine and store: every attempt at its instant for a
//! receiver that always fails, how the delivery ends, the meaning of each response, the notices, and what is left after
//! months.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up should fail where it stands")]

mod answers;
mod config_sync;
mod enabled_again;
mod ends;
mod fake_mail_server;
mod fixture;
mod health;
mod jitter;
mod mails;
mod node_builder;
mod nodes;
mod not_sent;
mod pacing;
mod probing;
mod replays;
mod retention;
mod schedules;
mod upgrade;
mod webhooks;
