//! The model has no state: its own `clippy.toml` refuses locks, atomics, once-cells and threads.

use std::{fs, path::Path, process::Command};

/// Each line is refused. Every type but `Arc` and every function but `drop` is one that the configuration names.
const STATE: &str = "
pub fn lock(_: std::sync::Mutex<u8>) {}
pub fn read_write_lock(_: std::sync::RwLock<u8>) {}
pub fn condition(_: std::sync::Condvar) {}
pub fn atomic(_: std::sync::atomic::AtomicBool) {}
pub fn number(_: std::sync::Arc<std::sync::atomic::AtomicU64>) {}
pub fn once(_: std::sync::OnceLock<u8>) {}
pub fn lazy(_: &std::sync::LazyLock<u8>) {}
pub fn cell(_: std::cell::RefCell<u8>) {}
pub fn thread() { drop(std::thread::spawn(|| ())); }
thread_local! { static NUMBER: u8 = const { 1 } }
";
const STATELESS: &str = "pub fn text(_: std::sync::Arc<str>) {}";

/// Returns how many times clippy, configured as for the model, refuses something.
fn refusals(text: &str) -> usize {
    let folder = tempfile::tempdir().expect("a folder");
    let example = folder.path().join("example.rs");
    fs::write(&example, text).expect("a file");
    let checked = Command::new("clippy-driver")
        .env("CLIPPY_CONF_DIR", Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/model"))
        .args([
            "--edition=2024",
            "--crate-type=lib",
            "--emit=metadata",
            "--error-format=short",
            "--cap-lints=warn",
        ])
        .args(["-Wclippy::disallowed_types", "-Wclippy::disallowed_macros", "-Wclippy::disallowed_methods"])
        .arg("--out-dir")
        .arg(folder.path())
        .arg(&example)
        .output()
        .expect("clippy-driver");
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "{said}");
    said.lines().filter(|line| line.contains("use of a disallowed")).count()
}

#[test]
fn state_is_refused_in_the_model() {
    assert_eq!(refusals(STATE), STATE.trim().lines().count());
    assert_eq!(refusals(STATELESS), 0);
}
