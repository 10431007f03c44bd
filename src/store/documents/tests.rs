//! Holds every stored type against its golden documents: they are read and written back byte for byte.

use super::*;
use crate::domain::{
    contract::WaitingWhenDisabled,
    endpoint::{DisabledBy, DisabledReason},
    event_type::VersionDocument,
    inspection::{CheckName, InspectionCheck, InspectionFinding},
    notice::{DigestExample, EndpointCount},
    ordering::{OnDead, OrderingMode},
    quota::Quota,
    rate_limit::{AppLimits, RateLimit},
    replay::{Backfill, ReplayFilter},
    time::Timestamp,
};
use serde::de::{Deserializer, Error as _, Visitor, value::Error};
use serde_json::{Map, Value};
use std::{any::type_name, collections::BTreeSet, fs, path::Path};

/// A stored type, or a part of one.
struct Entry {
    file: &'static str,
    /// Where in the document it stands; `*` is every entry of a list.
    path: &'static str,
    type_name: &'static str,
    /// Its fields or variants, by their stored names.
    names: Option<&'static [&'static str]>,
    rewrite: Option<fn(&str) -> serde_json::Result<String>>,
}

macro_rules! entries {
    ($($file:literal: $type:ty),+ $(,)?) => { vec![$(Entry {
        file: $file,
        path: "",
        type_name: type_name::<$type>(),
        names: names::<$type>(),
        rewrite: Some(|text| write(&read::<$type>(text)?)),
    }),+] };
}

macro_rules! parts {
    ($($file:literal $path:literal: $type:ty),+ $(,)?) => { vec![$(Entry {
        file: $file,
        path: $path,
        type_name: type_name::<$type>(),
        names: names::<$type>(),
        rewrite: None,
    }),+] };
}

fn documents() -> Vec<Entry> {
    stored_documents!(entries)
}

/// Types that stored documents are made of.
fn parts() -> Vec<Entry> {
    parts! {
        "app_settings" "/quota": Quota,
        "app_settings" "/limits": AppLimits,
        "app_settings" "/limits/rate_limit": RateLimit,
        "endpoint_settings" "/rate_limit": RateLimit,
        "endpoint_settings" "/ordered": OrderingMode,
        "endpoint_settings" "/on_dead": OnDead,
        "disabled" "/reason": DisabledReason,
        "disabled" "/at": Timestamp,
        "disabled" "/waiting": WaitingWhenDisabled,
        "disabled" "/by": DisabledBy,
        "event_type" "/versions/*": VersionDocument,
        "replay_selection" "/deliveries": ReplayFilter,
        "replay_selection" "/backfill": Backfill,
        "inspection_report" "/checks/*": InspectionCheck,
        "inspection_report" "/checks/*/name": CheckName,
        "inspection_report" "/checks/*/finding": InspectionFinding,
        "notice_digest" "/first": DigestExample,
        "notice_digest" "/last/event": EventRef,
        "notice_digest" "/endpoints/*": EndpointCount,
        "statistics_endings" "": ResultCode,
    }
}

/// Fields that are left out where they hold their default. All others must be there when a document is read.
const LEFT_OUT: &[(&str, &[&str])] = &[
    (
        "app_settings",
        &[
            "/contract",
            "/overrides",
            "/id_prefix",
            "/contact_email",
            "/quota",
            "/quota/events_per_second",
            "/quota/bytes_per_second",
            "/limits",
            "/limits/max_in_flight",
            "/limits/rate_limit",
            "/metadata",
        ],
    ),
    (
        "endpoint_settings",
        &[
            "/contract",
            "/overrides",
            "/payload_version",
            "/max_in_flight",
            "/rate_limit",
            "/ordered",
            "/on_dead",
            "/health_url",
            "/description",
            "/metadata",
        ],
    ),
    ("disabled", &["/by", "/by/key/name"]),
    (
        "event_type",
        &[
            "/description",
            "/sample",
            "/versions/0/description",
            "/versions/0/schema",
            "/versions/0/function",
            "/enforce_schema",
            "/archived_at",
        ],
    ),
    ("audit_detail", &["/fields", "/scope", "/kind", "/total"]),
    ("replay_selection", &["/deliveries/missed_since"]),
    ("notice_details", &["/since", "/last_error", "/reason", "/off_at"]),
    ("notice_event", &["/given_id"]),
    (
        "notice_digest",
        &[
            "/first/delivery",
            "/first/event",
            "/first/event/given_id",
            "/first/last_error",
            "/last/delivery",
            "/last/event",
            "/last/event/given_id",
            "/last/last_error",
        ],
    ),
    ("encrypted_tls", &["/client_certificate", "/client_key", "/ca"]),
    // Maps: each entry is there or not.
    ("statistics_latency", &["/0", "/12"]),
    ("statistics_endings", &["/-503", "/-2", "/200"]),
];

/// Values that callers gave, whatever is in them.
const FREE_FORM: [&str; 3] = ["metadata", "overrides", "schema"];

/// The documents of a golden file, one in a line. The first has every field set.
fn golden(file: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store/golden").join(format!("{file}.json"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(str::to_owned).collect()
}

fn values(file: &str) -> Vec<Value> {
    golden(file).iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Asks a type for the names of its fields or variants.
struct Names<'a>(&'a mut Option<&'static [&'static str]>);

impl<'de> Deserializer<'de> for Names<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("asked for names only"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        *self.0 = Some(fields);
        self.deserialize_any(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        *self.0 = Some(variants);
        self.deserialize_any(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map identifier ignored_any
    }
}

fn names<T: DeserializeOwned>() -> Option<&'static [&'static str]> {
    let mut names = None;
    assert!(T::deserialize(Names(&mut names)).is_err());
    names
}

/// The values at a path.
fn at<'a>(value: &'a Value, path: &str) -> Vec<&'a Value> {
    path.split('/').skip(1).fold(vec![value], |found, name| {
        let below = |value: &'a Value| match value {
            Value::Array(entries) if name == "*" => entries.iter().collect(),
            _ => Vec::from_iter(value.get(name)),
        };
        found.into_iter().flat_map(below).collect()
    })
}

/// The paths of all objects of a document, but for those in values of callers.
fn objects(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            found.push(path.to_owned());
            for (name, member) in members.iter().filter(|(name, _)| !FREE_FORM.contains(&name.as_str())) {
                objects(member, &format!("{path}/{name}"), found);
            }
        }
        Value::Array(entries) => {
            for (number, entry) in entries.iter().enumerate() {
                objects(entry, &format!("{path}/{number}"), found);
            }
        }
        _ => {}
    }
}

/// Whether a document is still read after a change to one of its objects.
fn reads(
    entry: &Entry,
    document: &Value,
    object: &str,
    change: impl FnOnce(&mut Map<String, Value>),
) -> bool {
    let mut document = document.clone();
    change(document.pointer_mut(object).and_then(Value::as_object_mut).unwrap());
    entry.rewrite.is_some_and(|rewrite| rewrite(&document.to_string()).is_ok())
}

#[test]
fn golden_documents_are_read_and_written_back_byte_for_byte() {
    for entry in documents() {
        for line in golden(entry.file) {
            let written = entry.rewrite.unwrap()(&line);
            assert_eq!(written.map_err(|error| format!("{}: {error}", entry.file)), Ok(line));
        }
    }
}

/// An unknown reason is that of a rule: it is read and written back whatever it means.
#[test]
fn the_reasons_of_disabled_endpoints_are_read_for_what_they_mean() {
    let reasons = golden("disabled").into_iter().map(|line| read::<Disabled>(&line).unwrap().reason);
    let (manual, rule) = (DisabledReason::Manual, DisabledReason::Rule("failing".to_owned()));
    assert!(reasons.eq([manual.clone(), DisabledReason::Gone, rule, manual.clone(), manual]));
}

#[test]
fn golden_documents_have_every_field_and_every_variant() {
    for entry in documents().into_iter().chain(parts()) {
        let Some(names) = entry.names else { continue };
        let values = values(entry.file);
        let found: Vec<&Value> = values.iter().flat_map(|value| at(value, entry.path)).collect();
        let named = |value: &&Value| match value {
            Value::Object(members) => members.keys().cloned().collect(),
            Value::String(word) => vec![word.clone()],
            other => panic!("{}{}: {other}", entry.file, entry.path),
        };
        let found: BTreeSet<String> = found.iter().flat_map(named).collect();
        // `none` is the order that is never written.
        let names = names.iter().map(|name| (*name).to_owned()).filter(|name| name != "none");
        assert_eq!(found, names.collect(), "{}{} ({})", entry.file, entry.path, entry.type_name);
    }
}

#[test]
fn a_stored_document_with_an_unknown_field_is_refused() {
    for entry in documents() {
        for document in values(entry.file) {
            assert!(entry.rewrite.unwrap()(&document.to_string()).is_ok(), "{}", entry.file);
            let mut found = Vec::new();
            objects(&document, "", &mut found);
            for object in found {
                let is_read = reads(&entry, &document, &object, |members| {
                    members.insert("unknown_field".to_owned(), Value::from(1));
                });
                assert!(!is_read, "{}: an unknown field in \"{object}\" is ignored", entry.file);
            }
        }
    }
}

#[test]
fn a_stored_document_without_a_required_field_is_refused() {
    for entry in documents() {
        let mut left_out = BTreeSet::new();
        for document in values(entry.file) {
            let mut found = Vec::new();
            objects(&document, "", &mut found);
            for object in found {
                let members = document.pointer(&object).and_then(Value::as_object).unwrap();
                for name in members.keys() {
                    if reads(&entry, &document, &object, |members| drop(members.remove(name))) {
                        left_out.insert(format!("{object}/{name}"));
                    }
                }
            }
        }
        let expected = LEFT_OUT.iter().find(|(file, _)| *file == entry.file).map_or(&[][..], |known| known.1);
        let expected: BTreeSet<String> = expected.iter().map(|path| (*path).to_owned()).collect();
        assert_eq!(left_out, expected, "{}", entry.file);
    }
}

/// The names of types in these sources that can be read from a document.
fn readable_types(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            // Their documents come from callers, files and answers.
            if !["api", "cli", "config", "tests"].iter().any(|name| path.ends_with(name)) {
                readable_types(&path, found);
            }
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let mut is_readable = false;
        for line in code.lines() {
            is_readable |= line.contains("Deserialize") && !line.starts_with("use ") && !line.contains("fn ");
            // Of any visibility, also inside a function.
            let item = line.trim_start();
            let is_item = ["pub ", "pub(", "struct ", "enum "].iter().any(|start| item.starts_with(start));
            let mut words = item.split([' ', '(', '<', ';']);
            if is_item
                && words.any(|word| ["struct", "enum"].contains(&word))
                && let Some(name) = words.next()
            {
                // A macro gives the other names.
                if is_readable && !name.starts_with('$') {
                    found.insert(name.to_owned());
                }
                is_readable = false;
            }
        }
    }
}

#[test]
fn every_type_that_can_be_read_from_a_document_has_a_golden_one() {
    let mut found = BTreeSet::new();
    readable_types(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    assert!(found.contains("EndpointSettings") && found.contains("Timestamp"), "{found:?}");
    let listed: Vec<&str> = documents().into_iter().chain(parts()).map(|entry| entry.type_name).collect();
    found.retain(|name| !listed.iter().any(|listed| listed.ends_with(&format!("::{name}"))));
    assert_eq!(found, BTreeSet::new(), "stored without a golden document");
}
