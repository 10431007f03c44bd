//! Tests of the API without a store: routes, keys, and requests that are refused early.

use super::{openapi_json, router};
use crate::service::test_service::{ADMIN_KEY, service};
use axum::{Router, body::Body};
use http::{Method, Request, Response, header};
use http_body_util::BodyExt;
use serde_json::Value;
use std::sync::Arc;
use tower::ServiceExt;

const METHODS: [Method; 5] = [Method::GET, Method::POST, Method::PATCH, Method::PUT, Method::DELETE];

fn api() -> Router {
    let service = service();
    service.readiness().start_accepting();
    router(Arc::new(service))
}

async fn send(method: &Method, path: &str, key: Option<&str>, body: &'static str) -> Response<Body> {
    let mut request = Request::builder().method(method).uri(path);
    if let Some(key) = key {
        request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
    }
    api().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap()
}

async fn json(response: Response<Body>) -> (u16, Value) {
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

fn described() -> Vec<(String, Vec<String>)> {
    let document: Value = serde_json::from_str(&openapi_json()).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let methods = |item: &Value| item.as_object().unwrap().keys().map(|name| name.to_uppercase()).collect();
    paths.iter().map(|(path, item)| (path.clone(), methods(item))).collect()
}

#[tokio::test]
async fn the_router_has_exactly_the_described_operations() {
    for (path, methods) in described() {
        let path = path.replace(['{', '}'], "");
        for method in METHODS {
            let status = send(&method, &path, None, "").await.status().as_u16();
            // These may be ids chosen by callers; they are described by the routes with braces.
            let is_named = match method {
                Method::GET => path.ends_with("/events/batch") || path.ends_with("/event-types/import"),
                Method::PUT | Method::DELETE => path.ends_with("/event-types/import"),
                _ => false,
            };
            let is_described = is_named || methods.iter().any(|known| known == method.as_str());
            assert_eq!(status == 405, !is_described, "{method} {path}: {status}");
            assert_ne!(status, 404, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn every_operation_under_v1_needs_a_valid_key() {
    for (path, methods) in described().into_iter().filter(|(path, _)| path.starts_with("/v1/")) {
        for method in methods {
            let method: Method = method.parse().unwrap();
            for key in [None, Some("wrong"), Some("")] {
                let response = send(&method, &path.replace(['{', '}'], ""), key, "").await;
                assert!(response.headers().contains_key(header::WWW_AUTHENTICATE), "{method} {path}");
                assert_eq!(json(response).await.1["code"], "unauthorized", "{method} {path}");
            }
        }
    }
}

#[tokio::test]
async fn every_operation_on_an_unknown_app_is_not_found() {
    let (status, unknown) = json(send(&Method::GET, "/v1/apps/nobody", Some(ADMIN_KEY), "").await).await;
    assert_eq!((status, &unknown["detail"]), (404, &Value::from("There is no such app.")));
    for (path, methods) in described().into_iter().filter(|(path, _)| path.contains("{app}")) {
        for method in methods {
            let path = path.replace("{app}", "nobody").replace(['{', '}'], "");
            let response = send(&method.parse().unwrap(), &path, Some(ADMIN_KEY), "{}").await;
            assert_eq!(json(response).await, (404, unknown.clone()), "{method} {path}");
        }
    }
}

#[tokio::test]
async fn a_closed_store_is_answered_503_with_retry_after() {
    let response = send(&Method::POST, "/v1/apps", Some(ADMIN_KEY), r#"{"name":"a"}"#).await;
    assert!(response.headers().contains_key(header::RETRY_AFTER));
    assert_eq!(json(response).await.0, 503);
}

#[tokio::test]
async fn every_answer_is_problem_json_or_json_and_is_not_stored() {
    for path in ["/nothing", "/v1/apps", "/livez", "/v1/nothing"] {
        let response = send(&Method::GET, path, None, "").await;
        let header = |name| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        let is_problem = response.status().as_u16() >= 400;
        let expected = if is_problem { "application/problem+json" } else { "application/json" };
        assert_eq!(header(header::CONTENT_TYPE).as_deref(), Some(expected), "{path}");
        assert_eq!(header(header::CACHE_CONTROL).as_deref(), Some("no-store"), "{path}");
        assert_eq!(header(header::X_CONTENT_TYPE_OPTIONS).as_deref(), Some("nosniff"), "{path}");
    }
    let wrong_method = send(&Method::PUT, "/v1/apps", None, "").await;
    assert!(wrong_method.headers().contains_key(header::ALLOW));
    assert_eq!(json(wrong_method).await.1["code"], "method_not_allowed");
}

#[tokio::test]
async fn readyz_gives_the_reason() {
    let starting = router(Arc::new(service()));
    let request = Request::builder().uri("/readyz").body(Body::empty()).unwrap();
    let (status, body) = json(starting.oneshot(request).await.unwrap()).await;
    assert_eq!((status, &body["reasons"][0]["code"]), (503, &Value::from("starting")));
    assert_eq!(json(send(&Method::GET, "/readyz", None, "").await).await.0, 200);
}
