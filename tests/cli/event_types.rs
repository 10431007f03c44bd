//! `posthaste event-types`: imports a catalogue from a file, all or none, and exports it; a repeated import changes
//! nothing.

use crate::{
    command_output::{ToolOutput, run_with_key},
    harness::{NodeFolder, TestNode},
};
use serde_json::json;
use std::fs;

const TYPES: &str = r#"{ "event_types": [
  { "name": "order.paid", "description": "An order was paid", "sample": { "order": 1, "total": 12.50 },
    "versions": [{ "name": "2024-01-01", "schema": { "required": ["order"] } }], "enforce_schema": true },
  { "name": "order.lost", "archived": true }
] }"#;

struct CatalogueFixture {
    home: NodeFolder,
    node: TestNode,
}

impl CatalogueFixture {
    async fn new() -> Self {
        let home = NodeFolder::new();
        let node = home.start().await;
        Self { home, node }
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.home.folder().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    async fn run(&self, args: &[&str]) -> ToolOutput {
        run_with_key(&self.node, &[&["event-types"], args].concat()).await
    }
}

#[tokio::test]
async fn a_file_is_imported_exported_and_changes_nothing_the_second_time() {
    let fixture = CatalogueFixture::new().await;
    let file = fixture.write("types.json", TYPES);
    let would = fixture.run(&["import", &file, "--dry-run"]).await.ended(0);
    assert_eq!(
        would.out,
        "would be added  order.paid\nwould be added  order.lost\nwould be added: 2, changed: 0, left alone: 0\n"
    );
    assert_eq!(fixture.run(&["list", "--archived", "--json"]).await.ended(0).json(), json!({ "data": [] }));
    let done = fixture.run(&["import", &file]).await.ended(0);
    assert!(done.out.ends_with("added: 2, changed: 0, left alone: 0\n"), "{done:?}");
    let again = fixture.run(&["import", &file]).await.ended(0);
    assert_eq!(again.out, "added: 0, changed: 0, left alone: 2\n");
    let export = fixture.run(&["export"]).await.ended(0);
    let exported = fixture.write("exported.json", &export.out);
    let again = fixture.run(&["import", &exported, "--json"]).await.ended(0).json();
    assert_eq!(again["unchanged"], json!(["order.paid", "order.lost"]), "{}", export.out);
    let toml = "[[event_types]]\nname = \"order.paid\"\ndescription = \"Paid\"\n\n[[event_types]]\nname = \"order.sent\"\n";
    let changed = fixture.run(&["import", &fixture.write("more.toml", toml)]).await.ended(0);
    assert!(
        changed.out.contains("changed  order.paid  description, enforce_schema, sample, versions"),
        "{changed:?}"
    );
    assert!(changed.out.ends_with("added: 1, changed: 1, left alone: 0\n"), "{changed:?}");
    let mut restored = fixture.run(&["import", &exported, "--json"]).await.ended(0).json();
    assert_eq!(restored["changed"][0].take()["name"], "order.paid");
    assert_eq!(fixture.run(&["export"]).await.ended(0).json()["event_types"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn every_problem_of_a_file_is_printed_and_nothing_is_stored() {
    let fixture = CatalogueFixture::new().await;
    let bad = json!({ "event_types": [
        { "name": "good.one" }, { "name": "a b" }, { "nmae": "x" },
        { "name": "bad.schema", "versions": [{ "name": "1", "schema": { "type": 5 } }] },
    ] });
    let refused = fixture.run(&["import", &fixture.write("bad.json", &bad.to_string())]).await.ended(1);
    for field in ["event_types[1].name: ", "event_types[2].nmae: ", "event_types[3].versions[0].schema: "] {
        assert!(refused.err.contains(&format!("\n  {field}")), "{refused:?}");
    }
    assert_eq!(fixture.run(&["list"]).await.ended(0).out.lines().count(), 1);
    for (name, text, said) in [
        ("odd.json", "{", "not a JSON object"),
        ("odd.toml", "a = ", "odd.toml"),
        ("more.json", r#"{"event_types":[],"dryrun":true}"#, "dryrun"),
    ] {
        let refused = fixture.run(&["import", &fixture.write(name, text)]).await.ended(2);
        assert!(refused.err.contains(said), "{refused:?}");
    }
    fixture.run(&["import", "/nowhere/types.json"]).await.ended(2);
}

#[tokio::test]
async fn types_are_listed_shown_archived_and_deleted() {
    let fixture = CatalogueFixture::new().await;
    fixture.run(&["import", &fixture.write("types.json", TYPES)]).await.ended(0);
    let list = fixture.run(&["list"]).await.ended(0).out;
    let line = list.lines().nth(1).unwrap();
    assert!(list.starts_with("NAME ") && line.starts_with("order.paid  2024-01-01  enforced"), "{list}");
    assert!(!list.contains("order.lost"), "{list}");
    fixture.run(&["archive", "order.paid"]).await.ended(0);
    let list = fixture.run(&["list", "--archived"]).await.ended(0).out;
    assert_eq!(list.lines().count(), 3, "{list}");
    let shown = fixture.run(&["get", "order.paid"]).await.ended(0).json();
    assert!(shown["archived_at"].is_string(), "{shown:#}");
    fixture.run(&["unarchive", "order.paid", "--json"]).await.ended(0);
    fixture.run(&["delete", "order.paid"]).await.ended(2);
    fixture.run(&["delete", "order.paid", "--yes"]).await.ended(0);
    let gone = fixture.run(&["get", "order.paid"]).await;
    assert!(gone.code != Some(0) && gone.err.contains("There is no such event type."), "{gone:?}");
}
