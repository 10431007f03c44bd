//! The envelope of a published event. `data` is checked for its form but never parsed, and keeps its bytes.

use super::problem::{ErrorCode, Problem};
use crate::{
    domain::{field_error::FieldError, json, time::Timestamp},
    service::publish::PublishRequest,
};
use bytes::Bytes;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::{error::Category, value::RawValue};
use std::{borrow::Cow, fmt};

const FIELD_NAMES: [&str; 6] = ["id", "type", "data", "created_at", "key", "deliver_at"];
/// Data up to this size is copied: a slice would keep the connection's whole buffer in memory while the event is in flight.
const COPIED_BYTES_MAX: usize = 2048;

/// An event whose fields are still raw JSON.
#[derive(Debug, Default)]
pub(super) struct Envelope<'a> {
    values: [Option<&'a RawValue>; FIELD_NAMES.len()],
    error: Option<EnvelopeError>,
}

#[derive(Debug)]
enum EnvelopeError {
    Repeated(&'static str),
    Unknown(String),
}

/// An event parsed from its envelope; `Publish` borrows from it.
#[derive(Debug)]
pub(super) struct ParsedEvent<'a> {
    id: Option<Cow<'a, str>>,
    event_type: Cow<'a, str>,
    data: Bytes,
    created_at: Option<Timestamp>,
    key: Option<Cow<'a, str>>,
    deliver_at: Option<Timestamp>,
}

impl<'a> ParsedEvent<'a> {
    /// Parses one envelope of `body`; larger data stays a slice of it.
    pub(super) fn new(envelope: &'a str, body: &Bytes) -> Result<Self, Problem> {
        let envelope: Envelope<'a> = serde_json::from_str(envelope).map_err(|error| malformed(&error))?;
        match envelope.error {
            None => {}
            Some(EnvelopeError::Repeated(name)) => {
                return Err(Problem::at(ErrorCode::Malformed, name, format!("{name}: is given twice")));
            }
            Some(EnvelopeError::Unknown(name)) => {
                return Err(FieldError::unknown(&name, &name, FIELD_NAMES.into_iter()).into());
            }
        }
        let [id, event_type, data, created_at, key, deliver_at] = envelope.values;
        let missing = |name| FieldError::new(name, "is missing");
        let data = data.ok_or_else(|| missing("data"))?.get();
        if json::is_too_deep(data.as_bytes()) {
            return Err(Problem::at(ErrorCode::Malformed, "data", "data: is nested deeper than 128"));
        }
        Ok(Self {
            id: text("id", id)?,
            event_type: text("type", event_type)?.ok_or_else(|| missing("type"))?,
            data: data_bytes(body, data),
            created_at: time("created_at", created_at)?,
            key: text("key", key)?,
            deliver_at: time("deliver_at", deliver_at)?,
        })
    }

    pub(super) fn to_request<'b>(&'b self, idempotency_key: Option<&'b str>) -> PublishRequest<'b> {
        PublishRequest {
            id: self.id.as_deref(),
            event_type: &self.event_type,
            data: self.data.clone(),
            created_at: self.created_at,
            key: self.key.as_deref(),
            deliver_at: self.deliver_at,
            idempotency_key,
        }
    }
}

/// Returns the body as text. UTF-8 is checked once here, so that later reads need not.
pub(super) fn utf8(body: &Bytes) -> Result<&str, Problem> {
    std::str::from_utf8(body).map_err(|_| Problem::new(ErrorCode::Malformed, "The body is not valid UTF-8."))
}

pub(super) fn malformed(error: &serde_json::Error) -> Problem {
    match error.classify() {
        Category::Data => Problem::new(ErrorCode::Malformed, "An event must be a JSON object."),
        _ => Problem::new(ErrorCode::Malformed, format!("The body is not valid JSON: {error}.")),
    }
}

fn data_bytes(body: &Bytes, data: &str) -> Bytes {
    if data.len() <= COPIED_BYTES_MAX {
        Bytes::copy_from_slice(data.as_bytes())
    } else {
        body.slice_ref(data.as_bytes())
    }
}

fn text<'a>(name: &'static str, value: Option<&'a RawValue>) -> Result<Option<Cow<'a, str>>, FieldError> {
    let Some(raw) = value.map(RawValue::get).filter(|raw| *raw != "null") else { return Ok(None) };
    // Most strings have no escapes.
    if let Some(plain) = raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'))
        && !plain.contains('\\')
    {
        return Ok(Some(Cow::Borrowed(plain)));
    }
    let owned: Result<String, _> = serde_json::from_str(raw);
    owned.map(|text| Some(Cow::Owned(text))).map_err(|_| FieldError::new(name, "must be a string"))
}

fn time(name: &'static str, value: Option<&RawValue>) -> Result<Option<Timestamp>, FieldError> {
    let form = "must be a time in RFC 3339, for example \"2026-11-15T09:30:00Z\"";
    let parse = |text: Cow<'_, str>| Timestamp::parse(&text).ok_or_else(|| FieldError::new(name, form));
    text(name, value).map_err(|_| FieldError::new(name, form))?.map(parse).transpose()
}

impl<'de: 'a, 'a> Deserialize<'de> for Envelope<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EnvelopeVisitor)
    }
}

struct EnvelopeVisitor;

impl<'de> Visitor<'de> for EnvelopeVisitor {
    type Value = Envelope<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event")
    }

    /// Reads to the end even after an error, because invalid JSON is reported first.
    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Envelope<'de>, M::Error> {
        let mut envelope = Envelope::default();
        while let Some(FieldName(name)) = map.next_key()? {
            let Some(index) = FIELD_NAMES.iter().position(|known| *known == name) else {
                map.next_value::<IgnoredAny>()?;
                envelope.error.get_or_insert_with(|| EnvelopeError::Unknown(name.into_owned()));
                continue;
            };
            if envelope.values[index].replace(map.next_value()?).is_some() {
                envelope.error.get_or_insert(EnvelopeError::Repeated(FIELD_NAMES[index]));
            }
        }
        Ok(envelope)
    }
}

/// A field name of the envelope, borrowed unless it contains escapes.
struct FieldName<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for FieldName<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(FieldNameVisitor)
    }
}

struct FieldNameVisitor;

impl<'de> Visitor<'de> for FieldNameVisitor {
    type Value = FieldName<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field name")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<FieldName<'de>, E> {
        Ok(FieldName(Cow::Borrowed(name)))
    }

    fn visit_str<E>(self, name: &str) -> Result<FieldName<'de>, E> {
        Ok(FieldName(Cow::Owned(name.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPTH_MAX: usize = 128;

    fn read(body: &str) -> Result<(String, Bytes), (u16, Option<String>)> {
        let bytes = Bytes::copy_from_slice(body.as_bytes());
        let read = utf8(&bytes).and_then(|text| ParsedEvent::new(text, &bytes));
        read.map(|read| (read.event_type.into_owned(), read.data.clone())).map_err(|problem| {
            let view = problem.view();
            (view.status, view.field)
        })
    }

    fn field(status: u16, name: &str) -> Result<(String, Bytes), (u16, Option<String>)> {
        Err((status, Some(name.to_owned())))
    }

    #[test]
    fn data_is_kept_byte_for_byte() {
        for data in [
            r#"{ "b" : 1.10 , "a":"\u00e9\/" }"#,
            "null",
            "1e400",
            "0.10000000000000000000001",
            "[1,\n2]",
            r#""\ud800""#,
            "\"\u{2028}\"",
            r#"{"a":1,"a":2}"#,
        ] {
            let (_, kept) = read(&format!(r#"{{"type":"a", "data": {data} }}"#)).unwrap();
            assert_eq!(kept, data);
        }
        let long = format!("\"{}\"", "x".repeat(COPIED_BYTES_MAX));
        assert_eq!(read(&format!(r#"{{"data":{long},"type":"a"}}"#)).unwrap().1, long);
    }

    #[test]
    fn missing_repeated_and_unknown_fields_are_named() {
        assert_eq!(read(r#"{"data":1}"#), field(422, "type"));
        assert_eq!(read(r#"{"type":"a"}"#), field(422, "data"));
        assert_eq!(read(r#"{"type":"a","data":1,"type":"b"}"#), field(400, "type"));
        assert_eq!(read(r#"{"type":"a","data":1,"d\u0061ta":1}"#), field(400, "data"));
        assert_eq!(read(r#"{"type":"a","data":1,"payload":1}"#), field(422, "payload"));
        assert_eq!(read(r#"{"type":5,"data":1}"#), field(422, "type"));
        assert_eq!(read(r#"{"type":null,"data":1}"#), field(422, "type"));
        assert_eq!(read(r#"{"type":"a","data":1,"created_at":"soon"}"#), field(422, "created_at"));
        assert_eq!(read(r#"{"type":"a","data":1,"deliver_at":5}"#), field(422, "deliver_at"));
        assert!(read(r#"{"type":"a","data":1,"id":null,"key":null,"created_at":null}"#).is_ok());
        assert_eq!(read(r#"{"type":"\u0061","data":1}"#).unwrap().0, "a");
    }

    #[test]
    fn a_body_other_than_one_json_object_is_malformed() {
        let ok = r#"{"type":"a","data":1}"#;
        let bodies = [
            "",
            "[]",
            "5",
            "{",
            &format!("\u{feff}{ok}"),
            &format!("{ok}x"),
            r#"{"type":"a","data":}"#,
            "{'a':1}",
        ];
        for body in bodies {
            assert_eq!(read(body), Err((400, None)), "{body}");
        }
        let invalid = Bytes::from_static(b"{\"type\":\"a\",\"data\":\"\xff\"}");
        assert_eq!(utf8(&invalid).unwrap_err().status(), 400);
    }

    #[test]
    fn nesting_is_allowed_up_to_its_bound_and_never_overflows() {
        let nested =
            |levels: usize| format!(r#"{{"type":"a","data":{}{}}}"#, "[".repeat(levels), "]".repeat(levels));
        assert!(read(&nested(DEPTH_MAX)).is_ok());
        assert_eq!(read(&nested(DEPTH_MAX + 1)), field(400, "data"));
        assert_eq!(read(&nested(400_000)), field(400, "data"));
        let flat = format!(r#"{{"type":"a","data":[{}"\"[[[["]}}"#, "[],".repeat(300));
        assert!(read(&flat).is_ok(), "brackets side by side or in strings do not count as nesting");
    }
}
