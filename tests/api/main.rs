//! The HTTP API of the real binary, from outside: every promise of the API section of the design, and every refusal.
//!
//! Each test has a server of its own. Every answer is held against `/openapi.json` on its way to the test.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up should fail where it stands")]

#[path = "../harness/mod.rs"]
#[expect(dead_code, unused_imports, reason = "shared by several targets, each of which uses its part")]
mod harness;

mod description;
mod fixture;
mod raw_http;
mod verifier;

mod actions;
mod addresses;
mod apps;
mod audit;
mod batch;
mod body_limit;
mod bytes;
mod client_certificates;
mod commands;
mod configuration;
mod contract_layers;
mod contract_views;
mod contracts;
mod dashboard;
mod dedup;
mod delivery_life;
mod disabling;
mod endpoints;
mod event_type_faults;
mod event_type_imports;
mod event_type_rules;
mod health;
mod inspect;
mod inspect_command;
mod inspect_life;
mod keys;
mod limits;
mod lists;
mod metrics;
mod notices;
mod openapi;
mod operating;
mod order;
mod payload_faults;
mod payload_versions;
mod portal;
mod problems;
mod publishing;
mod quotas;
mod replays;
mod scopes;
mod search;
mod secrets;
mod separation;
mod static_headers;
mod stats;
mod statuses;
mod stream;
mod subscriptions;
mod system;
