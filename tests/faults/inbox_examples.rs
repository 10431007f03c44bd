//! The examples of docs/transactional-publish.md work as described, as a role with only these privileges: in psql, and in Python
//! with SQLAlchemy, which `./check` installs; in a soak also in Rust with sqlx, which is compiled for it.

use crate::{harness::TestNode, inbox::InboxFixture};
use std::{
    fs,
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
};

const DOCUMENT: &str = include_str!("../../docs/transactional-publish.md");

/// Returns the first block of code behind this heading.
fn example(heading: &str, language: &str) -> String {
    let (_, chapter) = DOCUMENT.split_once(&format!("\n## {heading}\n")).unwrap();
    let (_, code) = chapter.split_once(&format!("```{language}\n")).unwrap();
    code.split_once("```").unwrap().0.to_owned()
}

fn here(path: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), path].iter().collect()
}

/// Opens a shop with two orders, and a role `product` that may only pay them and publish.
async fn open_shop() -> (InboxFixture, TestNode) {
    let (shop, node) = InboxFixture::open().await;
    shop.run(
        "DROP TABLE orders; CREATE TABLE public.orders (id bigint PRIMARY KEY, amount text, paid_at timestamptz)",
    );
    shop.run("INSERT INTO orders (id, amount) VALUES (1001, '12.50'), (1002, '3')");
    shop.run("CREATE ROLE product LOGIN; GRANT SELECT, UPDATE ON public.orders TO product");
    shop.run(&example("Who may", "sql"));
    (shop, node)
}

/// Returns the body that the receiver got under this id.
fn body(shop: &InboxFixture, id: &str) -> String {
    let receipts = shop.receiver.receipts_at("/hook");
    let receipt = receipts.iter().find(|receipt| receipt.id() == id).unwrap();
    String::from_utf8(receipt.body.to_vec()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_examples_of_the_documentation_publish_what_they_say() {
    let (shop, mut node) = open_shop().await;
    let said = shop.run(&format!("SET ROLE product; {}", example("psql", "sql")));
    assert_eq!(said, "order-1001-paid");
    shop.receives("order-1001-paid").await;
    let many = "SET ROLE product; SELECT posthaste.publish('shop', 'order.paid',
        json_build_object('order', o.id, 'amount', o.amount)) FROM orders o WHERE o.id > 1001";
    assert!(DOCUMENT.contains("json_build_object('order', o.id, 'amount', o.amount)"));
    shop.receives(&shop.run(many)).await;

    shop.run("UPDATE orders SET paid_at = NULL");
    let python = here("target/check/publish/venv/bin/python");
    assert!(python.exists(), "SQLAlchemy for the tests: run ./check once");
    let address = format!("postgresql+psycopg://product@/postgres?host={}", shop.server.folder);
    let mut product = Command::new(python);
    product.arg(here("tests/publish/shop.py")).arg(address).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut product = product.spawn().unwrap();
    let code = example("Python, SQLAlchemy", "python").replace("order-1001-paid", "from-python");
    product.stdin.take().unwrap().write_all(code.as_bytes()).unwrap();
    let output = product.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), "from-python");
    shop.receives("from-python").await;
    assert_eq!(shop.run("SELECT count(*) FROM orders WHERE paid_at IS NOT NULL"), "1");

    assert!(body(&shop, "order-1001-paid").contains(r#""data":{"order":1001,"amount":"12.50"}}"#));
    assert!(body(&shop, "from-python").contains(r#""data":{"order": 1001, "amount": "12.50"}}"#));
    shop.is_empty().await;
    assert_eq!(node.stop().await, Some(0), "{}", node.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: sqlx takes minutes to compile"]
async fn the_example_in_rust_publishes_what_it_says() {
    let (shop, mut node) = open_shop().await;
    let folder = here("target/check/sqlx");
    fs::create_dir_all(&folder).unwrap();
    let code = folder.join("example.rs");
    let block = example("Rust, sqlx", "rust").replace("order-1001-paid", "from-rust");
    fs::write(&code, format!("{{\n{block}event\n}}\n")).unwrap();
    let mut product = Command::new("cargo");
    product.args(["run", "--locked", "--manifest-path"]).arg(here("tests/publish/sqlx/Cargo.toml"));
    product.arg("--target-dir").arg(&folder).env("POSTHASTE_EXAMPLE", &code);
    // Not with the lints of this test's caller.
    product.env_remove("RUSTC_WORKSPACE_WRAPPER");
    product.arg("--").arg(format!("postgres:///postgres?host={}&user=product", shop.server.folder));
    let output = product.stderr(Stdio::inherit()).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), "from-rust");
    shop.receives("from-rust").await;
    assert_eq!(shop.run("SELECT count(*) FROM orders WHERE paid_at IS NOT NULL"), "1");
    assert!(body(&shop, "from-rust").contains(r#""data":{"order":1001,"amount":"12.50"}}"#));
    shop.is_empty().await;
    assert_eq!(node.stop().await, Some(0), "{}", node.log());
}
