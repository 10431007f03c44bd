//! Tests the receiver kits under `receivers/` against real requests: one file of vectors that the product's own
//! code wrote, every kit's own tests over it, and every example server as a real process.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up should fail where it stands")]

#[path = "../harness/mod.rs"]
#[expect(dead_code, unused_imports, reason = "shared by several targets, each of which uses its part")]
mod harness;

mod case;
mod example;
mod servers;
mod suites;
mod vectors;

use std::path::PathBuf;

/// A path under `receivers/`.
fn kit(path: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "receivers", path].iter().collect()
}

/// Where the kits may build and cache: never in their own folders.
fn scratch(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "target/check/receivers", name].iter().collect()
}
