//! Reads the configuration file into names, lines and values, without knowing what they mean.
//!
//! The parser's own messages quote the line they are about, which may hold a secret, so only their reason is kept.

use std::ops::Range;
use toml::de::{DeTable, DeValue};

pub(super) struct FileEntry {
    pub name: String,
    pub line: usize,
    pub value: FileValue,
}

pub(super) enum FileValue {
    Text(String),
    /// An array of plain values.
    List(Vec<String>),
    /// A table under the name.
    Table(Vec<FileEntry>),
    /// An array of something other than plain values.
    Other,
}

impl FileValue {
    /// The value as a variable would give it: lists with commas, where the setting is a list.
    pub(super) fn text(self, is_list: bool) -> Option<String> {
        match self {
            Self::Text(text) => Some(text),
            Self::List(items) if is_list => Some(items.join(",")),
            Self::List(_) | Self::Table(_) | Self::Other => None,
        }
    }
}

/// The reason why the file is not TOML.
pub(super) struct InvalidToml {
    pub line: usize,
    pub reason: String,
}

pub(super) fn entries(text: &str) -> Result<Vec<FileEntry>, InvalidToml> {
    let table = DeTable::parse(text).map_err(|error| InvalidToml {
        line: line_number(text, &error.span().unwrap_or_default()),
        reason: error.message().to_owned(),
    })?;
    Ok(entries_of(text, table.get_ref()))
}

fn entries_of(text: &str, table: &DeTable<'_>) -> Vec<FileEntry> {
    let mut entries: Vec<FileEntry> = table
        .iter()
        .map(|(name, value)| FileEntry {
            line: line_number(text, &name.span()),
            name: name.get_ref().clone().into_owned(),
            value: value_of(text, value.get_ref()),
        })
        .collect();
    entries.sort_by_key(|entry| entry.line);
    entries
}

fn line_number(text: &str, span: &Range<usize>) -> usize {
    text.get(..span.start).unwrap_or(text).matches('\n').count() + 1
}

fn value_of(text: &str, value: &DeValue<'_>) -> FileValue {
    match value {
        DeValue::Table(table) => FileValue::Table(entries_of(text, table)),
        DeValue::Array(items) => items
            .iter()
            .map(|item| plain(item.get_ref()))
            .collect::<Option<_>>()
            .map_or(FileValue::Other, FileValue::List),
        other => plain(other).map_or(FileValue::Other, FileValue::Text),
    }
}

fn plain(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.clone().into_owned()),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).ok().map(|number| number.to_string())
        }
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        DeValue::Datetime(at) => Some(at.to_string()),
        DeValue::Array(_) | DeValue::Table(_) => None,
    }
}
