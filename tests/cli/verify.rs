//! `posthaste verify` on a request of a real server: unchanged it is genuine, and each mistake is explained.

use crate::{
    command_output::{run, run_with_input},
    harness::{NodeFolder, TestReceiver, wait_for},
};
use serde_json::{Value, json};
use std::{fs, path::PathBuf, time::Duration};
use tempfile::TempDir;

const SECRET: &str = "whsec_AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";

/// A received request, in files.
struct RequestFixture {
    folder: TempDir,
    body: Vec<u8>,
}

impl RequestFixture {
    async fn new(contract: &str) -> Self {
        let home = NodeFolder::new();
        let node = home.start().await;
        let receiver = TestReceiver::start().await;
        node.client.make_app("shop").await;
        let more = json!({ "secret": SECRET, "contract": contract, "overrides": { "https_only": false } });
        node.client.make_endpoint("shop", "hook", &receiver.url("/in"), more).await;
        node.client
            .publish("shop", &json!({ "type": "order.paid", "data": { "b": "é", "a": [1, 2] } }))
            .await;
        let receipt =
            wait_for("it comes", Duration::from_secs(20), async || receiver.receipts().into_iter().next())
                .await;
        let fixture = Self { folder: TempDir::new().unwrap(), body: receipt.body.to_vec() };
        let line = |text: String, (name, value): (&String, &String)| format!("{text}{name}: {value}\r\n");
        let headers = receipt.headers.iter().fold(String::new(), line);
        fixture.write("headers", format!("POST /in HTTP/1.1\r\n{headers}\r\n").as_bytes());
        fixture.write("body", &receipt.body);
        fixture.write("secret", format!("{SECRET}\n").as_bytes());
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path(name), bytes).unwrap();
    }

    /// Returns the arguments for these files.
    fn args(&self, more: &[&str]) -> Vec<String> {
        let file = |name: &str| self.path(name).to_str().unwrap().to_owned();
        let own = [
            "verify",
            "--headers",
            &file("headers"),
            "--body",
            &file("body"),
            "--secret-file",
            &file("secret"),
        ];
        own.iter().map(|&text| text.to_owned()).chain(more.iter().map(|&text| text.to_owned())).collect()
    }

    async fn verify(&self, more: &[&str], code: i32) -> Value {
        let args = self.args(more);
        let mut args: Vec<&str> = args.iter().map(String::as_str).collect();
        args.push("--json");
        run(&args).await.ended(code).json()
    }
}

fn codes(found: &Value) -> Vec<&str> {
    found["clues"].as_array().unwrap().iter().map(|clue| clue["code"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn an_unchanged_request_is_genuine_and_every_mistake_is_explained() {
    let fixture = RequestFixture::new("standard").await;
    let genuine = fixture.verify(&[], 0).await;
    assert_eq!(
        (&genuine["verified"], &genuine["contract"]),
        (&json!(true), &json!("standard")),
        "{genuine:#}"
    );
    let args = fixture.args(&[]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let said = run(&args).await.ended(0);
    assert!(said.out.starts_with("verified (contract standard, signed "), "{said:?}");

    let value: Value = serde_json::from_slice(&fixture.body).unwrap();
    fixture.write("body", serde_json::to_string_pretty(&value).unwrap().as_bytes());
    let found = fixture.verify(&[], 1).await;
    assert_eq!(
        (&found["mismatch"]["code"], codes(&found)),
        (&json!("wrong_signature"), vec!["reserialised_body"])
    );
    let said = run(&args).await.ended(1);
    assert!(said.out.contains("the signature is right for this body as compact JSON"), "{said:?}");
    assert!(said.out.contains("do:  Verify the bytes of the body as they came in"), "{said:?}");
    fixture.write("body", &[&fixture.body[..], b"\n"].concat());
    assert_eq!(codes(&fixture.verify(&[], 1).await), ["changed_body"]);
    fixture.write("body", &fixture.body);

    let old = fixture.verify(&["--at", "2036-01-01T00:00:00Z"], 1).await;
    assert_eq!(old["mismatch"]["code"], "too_old", "{old:#}");
    let new = fixture.verify(&["--at", "2016-01-01T00:00:00Z"], 1).await;
    assert_eq!(new["mismatch"]["code"], "too_new", "{new:#}");
    assert!(new["mismatch"]["detail"].as_str().unwrap().contains("days in the future"), "{new:#}");
    fixture.verify(&["--at", "2036-01-01T00:00:00Z", "--tolerance", "3650d"], 0).await;

    fixture.write("secret", b"whsec_AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=\n");
    assert_eq!(codes(&fixture.verify(&[], 1).await), ["wrong_secret_or_body"]);
    fixture.write(
        "secret",
        format!("whsec_AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=\n{SECRET}\n").as_bytes(),
    );
    fixture.verify(&[], 0).await;
    let wrong = fixture.verify(&["--contract", "zerofee"], 1).await;
    assert_eq!(
        (&wrong["mismatch"]["code"], codes(&wrong)),
        (&json!("missing_header"), vec!["other_contract"])
    );
}

#[tokio::test]
async fn another_contract_is_verified_by_name_and_its_body_from_standard_input() {
    let fixture = RequestFixture::new("zerofee").await;
    fixture.verify(&["--contract", "zerofee"], 0).await;
    let headers = fixture.path("headers");
    let args = [
        "verify",
        "--contract",
        "zerofee",
        "--secret",
        SECRET,
        "--headers",
        headers.to_str().unwrap(),
        "--body",
        "-",
    ];
    run_with_input(&args, &fixture.body).await.ended(0);
    let found = fixture.verify(&[], 1).await;
    assert_eq!(codes(&found), ["other_contract"], "{found:#}");
}

#[tokio::test]
async fn unreadable_input_has_another_exit_code_than_a_wrong_signature() {
    let folder = TempDir::new().unwrap();
    let body = folder.path().join("body");
    fs::write(&body, "{}").unwrap();
    let body = body.to_str().unwrap();
    for (more, said) in [
        (vec!["--body", "/nowhere/at/all"], "/nowhere/at/all"),
        (vec!["--body", body, "--header", "nonsense"], "NAME: VALUE"),
        (vec!["--body", body, "--contract", "standrd"], "did you mean `standard`?"),
        (vec!["--body", body, "--at", "yesterday"], "RFC 3339"),
        (vec![], "--body"),
    ] {
        let refused = run(&[&["verify", "--secret", SECRET][..], &more].concat()).await.ended(2);
        assert!(refused.err.contains(said), "{refused:?}");
        assert!(!refused.err.contains("AQEB"), "no secret is repeated: {refused:?}");
    }
    let none = run(&["verify", "--body", body]).await.ended(1);
    assert!(none.out.contains("there is no secret to verify with"), "{none:?}");
}
