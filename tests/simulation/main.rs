//! The seeded simulation: service, engine and store under a virtual clock, with receivers that fail, stall, lie and recover,
//! and a process that is killed and started again at any step. A seed is a whole story and can be replayed.

#![expect(clippy::unwrap_used, reason = "a story that cannot go on ends, and its seed is printed")]

mod actors;
mod archive;
mod bulk_replays;
mod checker;
mod contracts;
mod controls;
mod declining_receiver;
mod director;
mod event_log;
mod limits;
mod network;
mod node_builder;
mod nodes;
mod order;
mod plan;
mod process;
mod sabotage;
mod seeds;
mod simulation_env;
