//! The whole tool, processes and sockets included, against its own receiver: what it counts is known beforehand.

#![cfg(test)]

use serde_json::Value;
use std::{
    fs,
    path::Path,
    process::{Command, Output},
};
use tempfile::TempDir;

/// Runs 200 events and returns the output with the lines of the JSON file.
fn measure(folder: &TempDir, target: &Path, further: &[&str]) -> (Output, Vec<Value>) {
    let json = folder.path().join("figures.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste-bench"));
    command.args(["run", "--events", "200", "--runs", "2", "--warm-up", "0", "--bare", "200", "--target"]);
    command.arg(target).arg("--json").arg(&json).arg("--work").arg(folder.path()).args(further);
    let output = command.output().unwrap();
    let text = fs::read_to_string(json).unwrap_or_default();
    (output, text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

fn targets() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/targets"))
}

/// The loopback target with one thing replaced.
fn bent_target(folder: &TempDir, from: &str, to: &str) -> std::path::PathBuf {
    let text = fs::read_to_string(targets().join("loopback.json")).unwrap();
    assert!(text.contains(from), "{from} is not in the target");
    let path = folder.path().join("bent.json");
    fs::write(&path, text.replace(from, to)).unwrap();
    path
}

fn lines<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["kind"] == kind).collect()
}

#[test]
fn every_event_arrives_once_and_is_written_down() {
    let folder = TempDir::new().unwrap();
    let svg = folder.path().join("plot.svg");
    let own = format!("own={}", std::process::id());
    let further = ["--svg", svg.to_str().unwrap(), "--pid", &own, "one-32"];
    let (output, json) = measure(&folder, &targets().join("loopback.json"), &further);
    assert!(output.status.success(), "{output:?}");
    let runs = lines(&json, "run");
    assert_eq!(runs.len(), 2);
    for run in runs {
        for (figure, expected) in
            [("accepted", 200), ("delivered", 200), ("lost", 0), ("duplicates", 0), ("strays", 0)]
        {
            assert_eq!(run[figure], expected, "{figure} in {run}");
        }
        assert_eq!(run["send_to_receive_ms"]["n"], 200);
        assert!(run["cpu_us_per_bare_request"].as_f64().unwrap() > 0.0);
        assert!(run["memory"]["own"]["peak_rss_mib"].as_f64().unwrap() > 0.0);
    }
    assert_eq!(lines(&json, "shape")[0]["runs"], 2);
    assert_eq!(lines(&json, "machine").len(), 1);
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("| one-32 |"), "{table}");
    assert!(fs::read_to_string(svg).unwrap().starts_with("<svg"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "only the figures and the plot are left");
}

#[test]
fn a_fixed_rate_takes_its_time_and_counts_from_the_due_times() {
    let folder = TempDir::new().unwrap();
    let (output, json) = measure(&folder, &targets().join("loopback.json"), &["latency", "--runs=1"]);
    // Given twice, the later number of runs would be an error.
    assert!(!output.status.success() && json.is_empty());
    let (output, json) = measure(&folder, &targets().join("loopback.json"), &["latency"]);
    assert!(output.status.success(), "{output:?}");
    for run in lines(&json, "run") {
        assert_eq!((&run["delivered"], &run["unsent"]), (&200.into(), &0.into()));
        // 200 events at 200 a second: the last is due 995 ms after the first.
        assert!(run["seconds"].as_f64().unwrap() >= 0.995, "{run}");
    }
}

#[test]
fn events_that_never_arrive_are_lost_and_fail_the_command() {
    let folder = TempDir::new().unwrap();
    // The receiver answers 200 to what belongs to no transfer, as a server would that accepts and forgets.
    let target = bent_target(&folder, "{{transfer}}/{{app_number}}", "elsewhere/0");
    let (output, json) = measure(&folder, &target, &["--settle", "0", "one-32"]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("one-32: 200 lost"), "{output:?}");
    let shape = lines(&json, "shape")[0];
    assert_eq!((&shape["lost"], &shape["delivered_per_s"]), (&400.into(), &0.0.into()));
}

#[test]
fn wrong_signatures_and_rejections_fail_the_command() {
    let folder = TempDir::new().unwrap();
    let signed = r#""signature": { "id": "webhook-id", "timestamp": "webhook-timestamp", "signature": "webhook-signature" }, "publish""#;
    let target = bent_target(&folder, "\"publish\"", signed);
    let (output, json) = measure(&folder, &target, &["one-32"]);
    assert!(!output.status.success());
    assert_eq!(lines(&json, "run")[0]["bad_signatures"], 200);

    let target = bent_target(&folder, "{{transfer}}/{{app_number}}", "{{transfer}}/7");
    let (output, json) = measure(&folder, &target, &["one-32"]);
    assert!(!output.status.success());
    let run = lines(&json, "run")[0];
    assert_eq!((&run["rejected"], &run["bad_requests"], &run["lost"]), (&200.into(), &200.into(), &0.into()));
}

#[test]
fn unknown_shapes_targets_and_variables_are_named() {
    let folder = TempDir::new().unwrap();
    let says = |target: &Path, further: &[&str], expected: &str| {
        let (output, _) = measure(&folder, target, further);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(expected), "{error}");
    };
    says(&targets().join("loopback.json"), &["two-32"], "there is no shape two-32");
    says(&targets().join("loopback.json"), &["waiting-100k"], "cannot be measured with --target");
    says(&targets().join("nowhere.json"), &["one-32"], "nowhere.json");
    says(&targets().join("svix.json"), &["one-32"], "the variable token is not set");
}
