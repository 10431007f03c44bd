//! `/openapi.json`: the document that is checked in, valid by its own rules, with examples that work.

use crate::{
    description::Operation,
    fixture::{TestServer, text},
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[tokio::test]
async fn what_is_served_is_what_is_checked_in() {
    let server = TestServer::start().await;
    let served = server.with_key(None).get("/openapi.json").await;
    let checked_in = include_str!("../../docs/openapi.json");
    assert!(served.text() == checked_in, "docs/openapi.json is old: posthaste openapi > docs/openapi.json");
}

#[tokio::test]
async fn every_operation_is_complete_and_every_name_is_used_once() {
    let server = TestServer::start().await;
    let document = &server.admin.description.0;
    assert!(text(&document["openapi"]).starts_with("3.1."));
    assert!(document["info"]["title"].is_string() && document["info"]["version"].is_string());
    let tags: BTreeSet<String> =
        document["tags"].as_array().unwrap().iter().map(|tag| text(&tag["name"])).collect();
    let mut ids = BTreeSet::new();
    for Operation { path, method, value } in server.admin.description.operations() {
        let about = format!("{method} {path}");
        assert!(["get", "post", "put", "patch", "delete"].contains(&method), "{about}");
        assert!(ids.insert(text(&value["operationId"])), "{about}: the operationId is taken");
        assert!(value["summary"].is_string(), "{about}");
        assert!(value["tags"].as_array().unwrap().iter().all(|tag| tags.contains(&text(tag))), "{about}");
        let responses = value["responses"].as_object().unwrap();
        assert!(responses.keys().any(|status| status.starts_with('2')), "{about}: nothing works");
        for (status, response) in responses {
            let response = server.admin.description.resolve(response);
            assert!(response["description"].is_string(), "{about} {status}");
            let is_problem = response["content"]["application/problem+json"]["schema"]["$ref"]
                == "#/components/schemas/Problem";
            assert_eq!(is_problem, status.as_str() >= "400" && path.starts_with("/v1"), "{about} {status}");
        }
        let security = value.get("security").unwrap_or(&document["security"]);
        assert_eq!(security[0].get("key").is_some(), path.starts_with("/v1"), "{about}: {security}");
        let parameters: Vec<&Value> = value["parameters"].as_array().into_iter().flatten().collect();
        let in_path = parameters.iter().filter(|one| one["in"] == "path");
        let named: BTreeSet<String> = in_path.map(|one| format!("{{{}}}", text(&one["name"]))).collect();
        let in_template: BTreeSet<String> =
            path.split('/').filter(|part| part.starts_with('{')).map(str::to_owned).collect();
        assert_eq!(named, in_template, "{about}");
        assert!(parameters.iter().all(|one| one["schema"].is_object()), "{about}");
    }
    assert!(ids.len() >= 30);
}

#[tokio::test]
async fn every_reference_leads_somewhere_and_every_example_fits_its_schema() {
    let server = TestServer::start().await;
    let description = &server.admin.description;
    let mut references = Vec::new();
    collect_references(&description.0, &mut references);
    assert!(!references.is_empty());
    for reference in references {
        let pointer = reference.strip_prefix('#').expect("inside the document");
        assert!(description.0.pointer(pointer).is_some(), "{reference}");
    }
    let mut examples = 0;
    for Operation { path, method, value } in description.operations() {
        let bodies = value["responses"].as_object().unwrap().values().chain(value.get("requestBody"));
        let bodies = bodies.map(|body| description.resolve(body));
        for media in bodies.filter_map(|body| body["content"].as_object()).flatten().map(|(_, media)| media) {
            let example =
                media.get("example").unwrap_or_else(|| panic!("{method} {path} has no example: {media}"));
            description.check_schema(&media["schema"], example, &format!("the example of {method} {path}"));
            examples += 1;
        }
    }
    for (name, schema) in description.0["components"]["schemas"].as_object().unwrap() {
        if let Some(example) = schema.get("example") {
            description.check_schema(schema, example, &format!("the example of {name}"));
        }
    }
    assert!(examples > 100, "{examples}");
}

fn collect_references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            found.extend(object.get("$ref").and_then(Value::as_str).map(str::to_owned));
            object.values().for_each(|inner| collect_references(inner, found));
        }
        Value::Array(list) => list.iter().for_each(|inner| collect_references(inner, found)),
        _ => {}
    }
}

#[tokio::test]
async fn the_examples_of_requests_work_as_they_stand() {
    let server = TestServer::start_with(&[("HTTPS_ONLY", "true"), ("ALLOW_ADDRESSES", "")]).await;
    let description = server.admin.description.clone();
    let example = |path: &str, method: &str| -> Value {
        let body = &description.0["paths"][path][method]["requestBody"];
        body["content"]["application/json"]["example"].clone()
    };
    let app = text(&server.admin.post("/v1/apps", &example("/v1/apps", "post")).await.is(201)["id"]);
    server.admin.post("/v1/keys", &example("/v1/keys", "post")).await.is(201);
    let inside = |rest: &str| format!("/v1/apps/{app}{rest}");
    server.admin.patch(&inside(""), &example("/v1/apps/{app}", "patch")).await.is(200);
    server.admin.post(&inside("/events"), &example("/v1/apps/{app}/events", "post")).await.is(202);
    let batch = server
        .admin
        .post(&inside("/events/batch"), &example("/v1/apps/{app}/events/batch", "post"))
        .await
        .is(200);
    assert!(batch["data"].as_array().unwrap().iter().all(|one| one["status"] == 202), "{batch}");
    let endpoint = example("/v1/apps/{app}/endpoints", "post");
    let id = text(&server.admin.post(&inside("/endpoints"), &endpoint).await.is(201)["id"]);
    let patch = example("/v1/apps/{app}/endpoints/{endpoint}", "patch");
    server.admin.patch(&inside(&format!("/endpoints/{id}")), &patch).await.is(200);
    let rotation = example("/v1/apps/{app}/endpoints/{endpoint}/secret/rotate", "post");
    server.admin.post(&inside(&format!("/endpoints/{id}/secret/rotate")), &rotation).await.is(200);
    let replay = example("/v1/apps/{app}/replays", "post");
    server.admin.post(&inside("/replays"), &replay).await.is(201);
    let backfill = example("/v1/apps/{app}/endpoints/{endpoint}/backfill", "post");
    server.admin.post(&inside(&format!("/endpoints/{id}/backfill")), &backfill).await.is(201);
    let enable = example("/v1/apps/{app}/endpoints/{endpoint}/enable", "post");
    server.admin.post(&inside(&format!("/endpoints/{id}/enable")), &enable).await.is(200);
    let link = example("/v1/apps/{app}/portal-links", "post");
    server.admin.post(&inside("/portal-links"), &link).await.is(201);
    let types = "/v1/event-types";
    let made = server.admin.post(types, &example(types, "post")).await.is(201);
    let (one, trial) = (format!("{types}/{{type}}"), format!("{types}/{{type}}/try"));
    let name = format!("{types}/{}", text(&made["name"]));
    let put = example(&one, "put").to_string();
    server.admin.send("PUT", &name, &[], Some(put.as_bytes())).await.is(200);
    server.admin.post(&format!("{name}/try"), &example(&trial, "post")).await.is(200);
    let import = format!("{types}/import");
    server.admin.post(&import, &example(&import, "post")).await.is(200);
    let with_body = description.operations().filter(|one| one.value.get("requestBody").is_some()).count();
    assert_eq!(with_body, 16, "an operation with a body is not tried here");
    assert_ne!(rotation, json!(null));
}
