//! Parameters of an operation, read from the API's own description, so that flags and help cannot disagree with it.

use super::field_value::FieldKind;
use serde_json::Value;
use std::sync::LazyLock;

/// The checked-in description. A test keeps it equal to the one that the API serves.
static OPENAPI: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/openapi.json"));
    serde_json::from_str(text).unwrap_or_default()
});

/// The part of an operation from which a command is made.
#[derive(Debug)]
pub(super) struct OperationParameters {
    /// In the order of the path.
    pub path: Vec<Parameter>,
    pub query: Vec<Parameter>,
    pub body: Vec<Parameter>,
}

/// A parameter of an operation.
#[derive(Debug)]
pub(super) struct Parameter {
    pub name: String,
    /// The flag's name, without its dashes.
    pub flag: String,
    /// Its name where it has no flag.
    pub label: String,
    pub help: String,
    pub kind: FieldKind,
    pub is_required: bool,
    /// Null removes the value.
    pub is_nullable: bool,
}

impl OperationParameters {
    /// None if the API has no such operation.
    pub(super) fn read(method: &str, path: &str) -> Option<Self> {
        let operation = OPENAPI["paths"].get(path)?.get(method.to_lowercase())?;
        let parameters = operation["parameters"].as_array().map_or(&[][..], Vec::as_slice);
        let among = |index: &str| {
            let of_location = parameters.iter().filter(|one| one["in"] == index);
            of_location.filter_map(Parameter::of_parameter).collect::<Vec<_>>()
        };
        let body = &operation["requestBody"]["content"]["application/json"]["schema"];
        Some(Self { path: among("path"), query: among("query"), body: fields_of(resolved(body)) })
    }

    /// Whether the answer is a page of a list.
    pub(super) fn is_list(&self) -> bool {
        self.query.iter().any(|field| field.name == "cursor")
    }
}

/// Lists every operation of the API, such as `GET /v1/apps`.
#[cfg(test)]
pub(super) fn routes() -> Vec<String> {
    let paths = OPENAPI["paths"].as_object().unwrap();
    let of = |(path, methods): (&String, &Value)| {
        let methods = methods.as_object().unwrap().keys().map(|method| method.to_uppercase());
        methods.map(|method| format!("{method} {path}")).collect::<Vec<_>>()
    };
    paths.iter().flat_map(of).collect()
}

impl Parameter {
    fn of_parameter(parameter: &Value) -> Option<Self> {
        let name = parameter["name"].as_str()?;
        let mut field = Self::new(name, &parameter["schema"], parameter["required"] == true);
        if let Some(help) = parameter["description"].as_str() {
            field.help = help.replace('\n', " ");
        }
        Some(field)
    }

    fn new(name: &str, schema: &Value, is_required: bool) -> Self {
        let choices = schema["oneOf"].as_array().map_or(&[][..], Vec::as_slice);
        let chosen = choices.iter().find(|one| one["type"] != "null").unwrap_or(schema);
        let full = resolved(chosen);
        let is_null = |kind: &Value| kind == "null";
        let is_nullable = choices.iter().any(|one| is_null(&one["type"]))
            || schema["type"].as_array().is_some_and(|types| types.iter().any(is_null));
        let help = [chosen, schema, full].iter().find_map(|one| one["description"].as_str());
        Self {
            name: name.to_owned(),
            flag: name.replace('_', "-"),
            label: name.to_uppercase(),
            // Parameters without a description get one from their name.
            help: help.map_or_else(|| name.replace('_', " "), |help| help.replace('\n', " ")),
            kind: FieldKind::of(name, full),
            is_required,
            is_nullable,
        }
    }
}

fn fields_of(schema: &Value) -> Vec<Parameter> {
    let Some(properties) = schema["properties"].as_object() else { return Vec::new() };
    let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
    let is_required = |name: &String| required.iter().any(|one| one == name.as_str());
    properties.iter().map(|(name, schema)| Parameter::new(name, schema, is_required(name))).collect()
}

fn resolved(schema: &Value) -> &Value {
    let index = schema["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
    index.and_then(|index| OPENAPI.pointer(index)).unwrap_or(schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field<'a>(fields: &'a [Parameter], name: &str) -> &'a Parameter {
        fields.iter().find(|field| field.name == name).unwrap()
    }

    #[test]
    fn fields_have_the_kind_and_the_help_of_the_api() {
        let create = OperationParameters::read("POST", "/v1/apps").unwrap();
        assert_eq!(field(&create.body, "quota").kind, FieldKind::Object { is_text: false });
        assert!(field(&create.body, "quota").help.starts_with("How much it may publish"));
        assert!(field(&create.body, "name").is_required && !field(&create.body, "name").is_nullable);
        assert_eq!(field(&create.body, "livemode").kind, FieldKind::Switch);
        let endpoint = OperationParameters::read("PATCH", "/v1/apps/{app}/endpoints/{endpoint}").unwrap();
        assert_eq!(field(&endpoint.body, "headers").kind, FieldKind::Object { is_text: true });
        assert_eq!(field(&endpoint.body, "event_types").kind, FieldKind::List);
        assert_eq!(
            (field(&endpoint.body, "max_in_flight").kind, endpoint.is_list()),
            (FieldKind::Number, false)
        );
        assert_eq!(endpoint.path.iter().map(|field| &field.name).collect::<Vec<_>>(), ["app", "endpoint"]);
        let list = OperationParameters::read("GET", "/v1/apps/{app}/deliveries").unwrap();
        assert_eq!((field(&list.query, "from").kind, list.is_list()), (FieldKind::Time, true));
        assert!(OperationParameters::read("GET", "/v1/nothing").is_none());
    }
}
