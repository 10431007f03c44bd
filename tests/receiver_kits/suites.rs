//! The tests that each kit brings along, run with its language's own runner.

use crate::{kit, scratch, vectors};
use std::process::Command;

/// Runs the command, which must succeed; returns its output.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}; run ./check, which installs what is missing"));
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{command:?}\n{said}");
    said
}

/// Runs a kit's tests and requires that they went through every vector that the product wrote.
fn run_suite(command: &mut Command) {
    let said = run(command);
    let expected = format!("ran {} vectors", vectors::all().len());
    assert!(said.contains(&expected), "it must say \"{expected}\":\n{said}");
}

/// Go without the network: what is not here is not needed.
pub(crate) fn go() -> Command {
    let mut command = Command::new("go");
    command
        .current_dir(kit("go"))
        .env("GOFLAGS", "-mod=mod")
        .env("GOTOOLCHAIN", "local")
        .env("GOPROXY", "off");
    command.env("GOCACHE", scratch("go-cache")).env("GOPATH", scratch("go"));
    command
}

/// Cargo for the kit's own package, without the network.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(kit("rust")).env("CARGO_TARGET_DIR", scratch("rust")).arg("--offline");
    // Without the lints of the environment that runs this test.
    command.env_remove("RUSTC_WORKSPACE_WRAPPER");
    command
}

#[test]
fn the_tests_of_the_python_kit_pass() {
    let mut python = Command::new("python3");
    python.args(["-B", "-W", "error", "-m", "unittest", "discover", "-v"]).current_dir(kit("python"));
    run_suite(&mut python);
}

#[test]
fn the_tests_of_the_node_kit_pass() {
    run_suite(Command::new("node").arg("--test").current_dir(kit("node")));
}

#[test]
fn the_tests_of_the_go_kit_pass() {
    run_suite(go().args(["test", "-count=1", "-v", "./..."]));
    run(go().args(["vet", "./..."]));
    assert_eq!(run(Command::new("gofmt").args(["-l", "."]).current_dir(kit("go"))), "", "gofmt -w them");
}

#[test]
fn the_tests_of_the_php_kit_pass() {
    run_suite(Command::new("php").arg("test.php").current_dir(kit("php")));
}

#[test]
fn the_tests_of_the_rust_kit_pass() {
    run_suite(cargo().args(["test", "--", "--nocapture"]));
    run(cargo().args(["clippy", "--all-targets", "--", "-D", "warnings"]));
    run(Command::new(env!("CARGO")).args(["fmt", "--check"]).current_dir(kit("rust")));
}
