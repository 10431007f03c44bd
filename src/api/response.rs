//! HTTP responses with the headers common to all of them: no caching, no content sniffing.

use super::problem::{ErrorCode, Problem};
use axum::{body::Body, response::Response};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");
pub(super) const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const NO_SNIFF: HeaderValue = HeaderValue::from_static("nosniff");

pub(super) type ApiResult = Result<Response, Problem>;

pub(super) fn bytes(status: StatusCode, content_type: HeaderValue, body: Bytes) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, content_type);
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, NO_SNIFF);
    response
}

pub(super) fn json(status: StatusCode, value: &impl Serialize) -> ApiResult {
    let body = serde_json::to_vec(value).map_err(|error| {
        Problem::new(ErrorCode::Internal, format!("The answer could not be written: {error}"))
    })?;
    Ok(bytes(status, JSON, body.into()))
}

pub(super) fn ok(value: &impl Serialize) -> ApiResult {
    json(StatusCode::OK, value)
}

pub(super) fn no_content() -> Response {
    let mut response = bytes(StatusCode::NO_CONTENT, JSON, Bytes::new());
    response.headers_mut().remove(header::CONTENT_TYPE);
    response
}
