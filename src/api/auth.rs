//! Authentication: the key of a request, and the ids in its path.
//!
//! The key is checked before anything else of the request. An object of another app gives the error of an absent one. Requests
//! that the key's scope does not allow are refused before the handler runs.

use super::{
    ApiState,
    problem::{ErrorCode, Problem},
    scope,
};
use crate::{
    runtime::CachedApp,
    service::{Caller, Service, api_keys::KeyRejected},
};
use axum::extract::{FromRequestParts, MatchedPath};
use http::{HeaderMap, header, request::Parts};
use std::{borrow::Cow, sync::Arc};

/// Caller with a valid key.
pub(super) struct Authenticated(pub Caller);

/// Request for an object of one app: `/v1/apps/{app}/…`.
pub(super) struct AppRequest {
    pub caller: Caller,
    pub entry: Arc<CachedApp>,
    /// Id of the object inside the app, as in `/v1/apps/{app}/endpoints/{id}`. Empty if there is none.
    pub path_id: String,
}

impl FromRequestParts<Arc<ApiState>> for Authenticated {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<ApiState>) -> Result<Self, Problem> {
        let caller = authenticate(&api.service, &parts.headers)?;
        check_scope(caller, parts)?;
        Ok(Self(caller))
    }
}

impl FromRequestParts<Arc<ApiState>> for AppRequest {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<ApiState>) -> Result<Self, Problem> {
        let (caller, entry) = authenticate_in_app(&api.service, parts)?;
        Ok(Self { caller, entry, path_id: segment(parts.uri.path(), 5)?.into_owned() })
    }
}

/// Authenticates the request and returns the caller and the app.
pub(super) fn authenticate_in_app(
    service: &Service,
    parts: &Parts,
) -> Result<(Caller, Arc<CachedApp>), Problem> {
    let caller = authenticate(service, &parts.headers)?;
    let entry = service.app(caller, &segment(parts.uri.path(), 3)?)?;
    check_scope(caller, parts)?;
    Ok((caller, entry))
}

/// Checks the key's scope; a request without a described route is refused for narrow scopes.
fn check_scope(caller: Caller, parts: &Parts) -> Result<(), Problem> {
    let path = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
    scope::require_allowed(caller.scope, &parts.method, path)
}

fn authenticate(service: &Service, headers: &HeaderMap) -> Result<Caller, Problem> {
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let key = given.and_then(|given| {
        let (scheme, key) = given.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| key.trim_start())
    });
    let refused = |detail: &str| Problem::new(ErrorCode::Unauthorized, detail);
    let key = key.ok_or_else(|| refused("Send a key as \"Authorization: Bearer …\"."))?;
    service.caller(key).map_err(|why| match why {
        KeyRejected::Unknown => refused("This key is not known, or was revoked."),
        KeyRejected::Expired(at) => refused(&format!("This key expired at {at}.")),
    })
}

/// Returns the nth part of a path, decoded; empty if the path has fewer.
pub(super) fn segment(path: &str, index: usize) -> Result<Cow<'_, str>, Problem> {
    let raw = path.split('/').nth(index).unwrap_or_default();
    if !raw.contains('%') {
        return Ok(Cow::Borrowed(raw));
    }
    decode(raw)
        .map(Cow::Owned)
        .ok_or_else(|| Problem::new(ErrorCode::NotFound, "There is no such path: it is not UTF-8."))
}

fn decode(raw: &str) -> Option<String> {
    let mut bytes = raw.bytes();
    let mut decoded = Vec::with_capacity(raw.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                (digit(bytes.next()?)? << 4 | digit(bytes.next()?)?) as u8
            }
            plain => plain,
        });
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_a_path_are_decoded_once() {
        let path = "/v1/apps/caf%C3%A9/events/a%2Fb%2520:~";
        assert_eq!(segment(path, 3).unwrap(), "café");
        assert_eq!(segment(path, 5).unwrap(), "a/b%20:~");
        assert_eq!(segment(path, 6).unwrap(), "");
        for bad in ["/%", "/%4", "/%zz", "/%ff"] {
            assert!(segment(bad, 1).is_err(), "{bad}");
        }
    }
}
