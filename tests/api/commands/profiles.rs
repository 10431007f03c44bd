//! The profile file: its permissions, precedence of settings, and the servers that get its key.

use super::CommandLine;
use crate::{fixture::TestServer, harness::ADMIN_KEY};
use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
};

/// With a home of its own, and no variables.
fn at_home(cli: &mut CommandLine) -> std::path::PathBuf {
    let home = cli.file("home");
    fs::create_dir(&home).unwrap();
    cli.set("HOME", home.to_str().unwrap());
    home.join(".config/posthaste/profile.toml")
}

#[tokio::test]
async fn a_profile_is_kept_for_its_owner_and_used_where_nothing_else_is_given() {
    let server = TestServer::start().await;
    let app = server.app().await;
    let mut cli = CommandLine::bare();
    let file = at_home(&mut cli);
    let url = format!("http://{}", server.admin.address);
    let key = format!("{ADMIN_KEY}\n");
    let set = ["profile", "set", "default", "--server", &url, "--app", &app.id, "--key-stdin"];
    let output = cli.run_with(&set, key.as_bytes()).await.ends(0);
    assert_eq!(output, format!("kept profile default in {}\n", file.display()));
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    cli.json("endpoints list").await;
    let output = cli.text_of("profile list").await;
    assert!(output.contains("phk_blac…") && !output.contains(&ADMIN_KEY[..12]), "{output}");
    assert!(!cli.json("profile list").await.to_string().contains(&ADMIN_KEY[..12]));

    cli.run_with(&["profile", "set", "broken", "--server", &url, "--key-stdin"], b"wrong-key-of-some-length")
        .await
        .ends(0);
    assert_eq!(cli.run("apps list --profile broken").await.code, Some(4));
    cli.set("POSTHASTE_PROFILE", "broken");
    assert_eq!(cli.run("apps list").await.code, Some(4));
    cli.text_of("apps list --profile default").await;
    cli.set("POSTHASTE_KEY", ADMIN_KEY);
    cli.text_of("apps list").await;
    assert_eq!(cli.run("apps list --key wrong").await.code, Some(4), "a flag beats a variable");
    cli.unset("POSTHASTE_KEY");

    let said = cli.run("apps list --profile defalt").await;
    assert!(said.err.contains("there is no profile `defalt`; did you mean `default`?"), "{}", said.err);
    assert_eq!(said.code, Some(2));
    assert_eq!(cli.run("profile remove broken").await.code, Some(2), "there is nobody to ask");
    cli.text_of("profile remove broken --yes").await;
    assert_eq!(cli.json("profile list").await["data"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_file_with_keys_that_others_may_read_is_refused() {
    let server = TestServer::start().await;
    let mut cli = CommandLine::at(&server);
    cli.write("p.toml", format!("[default]\nkey = \"{ADMIN_KEY}\"\n"));
    let file = cli.file("p.toml");
    cli.set("POSTHASTE_PROFILE_FILE", file.to_str().unwrap());
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let said = cli.run("apps list").await;
    assert!(said.err.contains(&format!("chmod 600 {}", file.display())), "{}", said.err);
    assert!(said.code == Some(2) && !said.err.contains(ADMIN_KEY));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    cli.text_of("apps list").await;
    cli.write("p.toml", format!("[default]\nkee = \"{ADMIN_KEY}\"\n"));
    let said = cli.run("apps list").await;
    assert!(said.err.contains("p.toml:2): there is no such field; did you mean `key`?"), "{}", said.err);
    assert!(said.code == Some(2) && !said.err.contains(ADMIN_KEY));
}

#[tokio::test]
async fn the_key_of_a_profile_goes_to_no_other_server() {
    let server = TestServer::start().await;
    let mut cli = CommandLine::bare();
    at_home(&mut cli);
    let set = ["profile", "set", "default", "--server", "http://127.0.0.1:9", "--key-stdin"];
    cli.run_with(&set, ADMIN_KEY.as_bytes()).await.ends(0);
    let said = cli.run(&format!("apps list --server http://{}", server.admin.address)).await;
    assert!(said.err.contains("is for http://127.0.0.1:9 and is not shown to"), "{}", said.err);
    assert_eq!(said.code, Some(2));
    let moved = ["profile", "set", "default", "--server", "http://127.0.0.1:10"];
    let said = cli.run_with(&moved, b"").await;
    assert!(
        said.err.contains("nothing was changed"),
        "with another server it needs another key: {}",
        said.err
    );
    assert_eq!(said.code, Some(2));
}
