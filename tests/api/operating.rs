//! Runs every command of `docs/operating.md`, in order, against a real server.

use crate::{
    fixture::{TestServer, receiver},
    harness::{ADMIN_KEY, ENCRYPTION_KEY},
};
use std::{path::Path, process::Stdio};
use tokio::process::Command;

const PAGE: &str = include_str!("../../docs/operating.md");

/// The blocks that are fenced as `sh`, each with the line it starts at.
fn blocks(page: &str) -> Vec<(usize, String)> {
    let (mut found, mut open) = (Vec::new(), None);
    for (number, line) in page.lines().enumerate() {
        match (&mut open, line) {
            (None, "```sh") => open = Some((number + 2, String::new())),
            (Some(_), "```") => found.extend(open.take()),
            (Some((_, text)), line) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, _) => {}
        }
    }
    assert!(open.is_none(), "a block is not closed");
    found
}

/// Runs all blocks in one shell, because later commands use variables of earlier ones; prints where it stops.
fn script(page: &str) -> String {
    let steps = blocks(page).into_iter().map(|(line, text)| format!("at={line}\n{text}\n"));
    let trap = r#"trap 'echo "docs/operating.md, the block at line $at: exit status $?" >&2' ERR"#;
    format!("set -Eeuo pipefail\n{trap}\n{}", steps.collect::<String>())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_of_the_page_works_as_printed() {
    let server = TestServer::start().await;
    let receiver = receiver(200).await;
    let programs = Path::new(env!("CARGO_BIN_EXE_posthaste")).parent().unwrap();
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", programs.display());
    let mut shell = Command::new("bash");
    shell.args(["-c", &script(PAGE)]).current_dir(server.home.run_folder()).env_clear().kill_on_drop(true);
    shell
        .env("PATH", path)
        .env("POSTHASTE_URL", format!("http://{}", server.admin.address))
        .env("POSTHASTE_KEY", ADMIN_KEY)
        .env("POSTHASTE_STORE", format!("sqlite:{}", server.home.store().display()))
        .env("POSTHASTE_ENCRYPTION_KEY", ENCRYPTION_KEY)
        .env("RECEIVER_URL", receiver.url("/hook"));
    let output = shell.stdin(Stdio::null()).output().await.unwrap();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{}\n{}\n(missing curl or jq are installed by ./check)",
        said(&output.stderr),
        said(&output.stdout)
    );
    assert!(blocks(PAGE).len() >= 8, "{}", blocks(PAGE).len());
}

#[test]
fn blocks_are_found_and_a_failing_command_stops_the_page() {
    let page =
        "a\n```sh\ntrue\n```\n```json\nfalse\n```\n```sh\nx=1\nfalse | cat\n```\n```sh\necho late\n```\n";
    let found = blocks(page);
    assert_eq!(found, [(3, "true\n".into()), (9, "x=1\nfalse | cat\n".into()), (13, "echo late\n".into())]);
    let output = std::process::Command::new("bash").args(["-c", &script(page)]).output().unwrap();
    assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("line 9"), "{output:?}");
}
