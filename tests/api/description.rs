//! Checks every response that a test gets against the description in `/openapi.json`.

use crate::raw_http::ApiResponse;
use serde_json::{Map, Value};

/// An operation of the description, with the path it stands under.
pub(crate) struct Operation<'a> {
    pub(crate) path: &'a str,
    pub(crate) method: &'a str,
    pub(crate) value: &'a Value,
}

#[derive(Clone, Debug)]
pub(crate) struct Description(pub(crate) Value);

impl Description {
    pub(crate) fn operations(&self) -> impl Iterator<Item = Operation<'_>> {
        let paths = self.0["paths"].as_object().expect("paths").iter();
        paths.flat_map(|(path, item)| {
            item.as_object().expect("operations").iter().map(|(method, value)| Operation {
                path,
                method,
                value,
            })
        })
    }

    /// Fails the test if the answer is not one that the description allows.
    #[track_caller]
    pub(crate) fn check(&self, method: &str, path: &str, answer: &ApiResponse) {
        let about = format!("{method} {path} → {} {}", answer.status, answer.text());
        let method = if method == "HEAD" { "get".to_owned() } else { method.to_ascii_lowercase() };
        let known = self.template_of(&method, path);
        let operation = known.map(|template| &self.0["paths"][template][&method]);
        match operation {
            None => assert_eq!(answer.status, 404, "a path that is not described: {about}"),
            Some(Value::Null) => assert_eq!(answer.status, 405, "a method that is not described: {about}"),
            Some(operation) => {
                let response = &operation["responses"][answer.status.to_string()];
                assert!(response.is_object(), "a status that is not described: {about}");
                self.check_body(self.resolve(response), answer, &about);
                return;
            }
        }
        assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{about}");
        if !answer.body.is_empty() {
            self.check_problem(answer, &about);
        }
    }

    fn check_problem(&self, answer: &ApiResponse, about: &str) {
        self.check_schema(
            &serde_json::json!({ "$ref": "#/components/schemas/Problem" }),
            &answer.json(),
            about,
        );
    }

    fn check_body(&self, response: &Value, answer: &ApiResponse, about: &str) {
        let content_type =
            answer.header("content-type").map(|full| full.split(';').next().unwrap_or_default());
        let Some(contents) = response["content"].as_object() else {
            assert_eq!((content_type, answer.body.len()), (None, 0), "a body that is not described: {about}");
            return;
        };
        let media = contents.get(content_type.unwrap_or_default());
        let media = media.unwrap_or_else(|| panic!("{content_type:?} is not described: {about}"));
        if content_type.is_some_and(|name| name.ends_with("json")) && !answer.body.is_empty() {
            self.check_schema(&media["schema"], &answer.json(), about);
        }
    }

    #[track_caller]
    pub(crate) fn check_schema(&self, schema: &Value, value: &Value, about: &str) {
        if let Err(fault) = self.fits(schema, value, "$") {
            panic!("{fault}: {about}");
        }
    }

    /// Whether the value has the shape of the schema: types, required properties, and no property beside them.
    pub(crate) fn fits(&self, schema: &Value, value: &Value, path: &str) -> Result<(), String> {
        let schema = self.resolve(schema);
        if let Some(choices) = schema["oneOf"].as_array().or(schema["anyOf"].as_array()) {
            let faults: Vec<String> =
                choices.iter().filter_map(|choice| self.fits(choice, value, path).err()).collect();
            let fits = faults.len() < choices.len();
            return if fits { Ok(()) } else { Err(faults.join(" and ")) };
        }
        let kind = kind_of(value);
        let is_whole = kind == "number" && (value.is_i64() || value.is_u64());
        for types in self.parts(schema).into_iter().map(|part| names(&part["type"])) {
            let fits = types.contains(&kind) || (is_whole && types.contains(&"integer"));
            if !types.is_empty() && !fits {
                return Err(format!("{path} is a {kind}, not {types:?}"));
            }
        }
        match value {
            Value::Object(object) => self.fits_object(schema, object, path),
            Value::Array(list) => {
                let mut items = list.iter().enumerate();
                items.try_for_each(|(i, item)| self.fits(&schema["items"], item, &format!("{path}[{i}]")))
            }
            Value::String(text) => fits_text(schema, text, path),
            Value::Number(number) => {
                let least = schema["minimum"].as_f64().unwrap_or(f64::MIN);
                let fits = number.as_f64().is_some_and(|number| number >= least);
                if fits { Ok(()) } else { Err(format!("{path} is below {least}")) }
            }
            Value::Bool(_) | Value::Null => Ok(()),
        }
    }

    fn fits_object(&self, schema: &Value, object: &Map<String, Value>, path: &str) -> Result<(), String> {
        let parts = self.parts(schema);
        let properties: Vec<(&String, &Value)> =
            parts.iter().filter_map(|part| part["properties"].as_object()).flatten().collect();
        for name in parts.iter().flat_map(|part| names(&part["required"])) {
            if !object.contains_key(name) {
                return Err(format!("{path}.{name} is missing"));
            }
        }
        let others = parts.iter().find_map(|part| part.get("additionalProperties"));
        for (name, value) in object {
            let path = format!("{path}.{name}");
            match properties.iter().find(|(known, _)| *known == name) {
                Some((_, schema)) => self.fits(schema, value, &path)?,
                None if others.is_some() => self.fits(others.unwrap_or(&Value::Null), value, &path)?,
                None if properties.is_empty() => {}
                None => return Err(format!("{path} is not described")),
            }
        }
        Ok(())
    }

    /// The schema itself and all that it is composed of.
    fn parts<'a>(&'a self, schema: &'a Value) -> Vec<&'a Value> {
        let mut parts = vec![schema];
        for part in schema["allOf"].as_array().into_iter().flatten() {
            parts.extend(self.parts(self.resolve(part)));
        }
        parts
    }

    pub(crate) fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let Some(reference) = schema["$ref"].as_str() else { return schema };
        let pointer = reference.strip_prefix('#').expect("a reference inside the document");
        let target = self.0.pointer(pointer).unwrap_or_else(|| panic!("{reference} is missing"));
        self.resolve(target)
    }

    /// Returns the described path that this one is an instance of: it has the method, and is the most specific.
    fn template_of(&self, method: &str, path: &str) -> Option<&str> {
        let path = path.split('?').next().unwrap_or_default();
        let parts: Vec<&str> = path.split('/').collect();
        let fits = |template: &&String| {
            let names: Vec<&str> = template.split('/').collect();
            let same =
                |(name, part): (&&str, &&str)| name == part || (name.starts_with('{') && !part.is_empty());
            names.len() == parts.len() && names.iter().zip(&parts).all(same)
        };
        let all = self.0["paths"].as_object().expect("paths").keys();
        let rank = |template: &&String| {
            (self.0["paths"][*template].get(method).is_none(), template.matches('{').count())
        };
        all.filter(fits).min_by_key(rank).map(String::as_str)
    }
}

fn names(value: &Value) -> Vec<&str> {
    match value {
        Value::String(name) => vec![name],
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn fits_text(schema: &Value, text: &str, path: &str) -> Result<(), String> {
    let known = names(&schema["enum"]);
    if !known.is_empty() && !known.contains(&text) {
        return Err(format!("{path} is {text:?}, not one of {known:?}"));
    }
    let is_time = text.len() == 24 && text.ends_with('Z') && text.as_bytes()[10] == b'T';
    if schema["format"] == "date-time" && !is_time {
        return Err(format!("{path} is {text:?}, not RFC 3339 in UTC with milliseconds"));
    }
    Ok(())
}

#[test]
fn a_response_that_deviates_from_the_description_is_noticed() {
    use serde_json::json;
    let description = Description(json!({ "components": { "schemas": {
        "Base": { "type": "object", "required": ["id"], "properties": { "id": { "type": "string" } } },
        "More": { "allOf": [{ "$ref": "#/components/schemas/Base" }, { "type": "object", "properties": {
            "at": { "type": ["string", "null"], "format": "date-time" }, "n": { "type": "integer", "minimum": 0 } } }] },
    } } }));
    let schema = json!({ "$ref": "#/components/schemas/More" });
    let fault = |value: Value| description.fits(&schema, &value, "$").err();
    assert_eq!(fault(json!({ "id": "a", "at": "2026-11-15T09:30:00.000Z", "n": 1 })), None);
    assert_eq!(fault(json!({ "id": "a", "at": null })), None);
    for wrong in [
        json!({}),
        json!({ "id": 1 }),
        json!({ "id": null }),
        json!({ "id": "a", "more": 1 }),
        json!({ "id": "a", "at": "2026-11-15" }),
        json!({ "id": "a", "n": 1.5 }),
        json!({ "id": "a", "n": -1 }),
        json!([]),
    ] {
        assert!(fault(wrong.clone()).is_some(), "{wrong}");
    }
}
