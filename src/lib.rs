//! Posthaste delivers webhooks: an event is published once, stored durably, and sent to every endpoint that
//! subscribes to it until each delivery has reached a recorded end. `docs/ARCHITECTURE.md` is the map.

pub mod api;
pub mod app;
pub mod cli;
pub mod config;
pub mod domain;
pub mod engine;
pub mod functions;
pub mod outbound;
pub mod runtime;
pub mod server;
pub mod service;
pub mod store;
