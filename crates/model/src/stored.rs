//! Helpers for types that are stored as JSON documents. `store/documents.rs` lists those types and their golden documents.
//!
//! Stored names are written out with `rename`, so that renaming a Rust item changes no document. A field with `default` and
//! `skip_serializing_if` is left out where it holds its default; every other field is required when a document is read.

use serde::{Deserialize, Deserializer};

/// Reads a field that is always written, as null where it is empty. Without it serde takes a missing field for a null.
pub fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de>>(value: D) -> Result<Option<T>, D::Error> {
    Option::deserialize(value)
}
