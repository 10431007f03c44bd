//! Several nodes on one store: each a process with clocks of its own that can be set, that freezes, dies and comes back,
//! over connections that lose messages. `db_triggers` watches the store, `line` every request, `verdict` the result.
//!
//! Every node has a runtime of its own, so that one stands still while the others go on. They meet in the store alone: there
//! are no notifications, and what waits is found by polling.

mod controls;
mod db_triggers;
mod director;
mod environment;
mod node;
mod node_sender;
mod plan;
mod producers;
mod sabotage;
mod seeds;
mod standby;
mod verdict;
