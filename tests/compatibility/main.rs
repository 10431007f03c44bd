//! The five systems from outside: the real binary delivers to receivers that follow each article's own rule (`tests/articles`),
//! and every header, every byte of the body, every id and every signature is what the article says.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up should fail where it stands")]

#[path = "../harness/mod.rs"]
#[expect(dead_code, unused_imports, reason = "shared by several targets, each of which uses its part")]
mod harness;

mod article_receiver;
mod fixture;

mod bastionary;
mod orientedos;
mod rotation;
mod sendnomi;
mod simpaisa;
mod zerofee;
