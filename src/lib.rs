//! Posthaste delivers webhooks: an event is published once, stored durably, and sent to every endpoint that
//! subscribes to it until each delivery has reached a recorded end. `docs/ARCHITECTURE.md` is the map.

pub mod api;
pub mod app;
pub mod cli;
pub mod engine;
pub mod service;
pub mod store;

pub use {config, functions, model as domain, outbound, runtime, server};
