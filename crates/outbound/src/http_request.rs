//! Renders a request in the HTTP library's types.
//!
//! Headers that frame the request or name its host are reserved; they are refused when an endpoint is written and
//! again here, where they would do the harm.

use super::{OutboundRequest, send_error::SendError};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Uri,
    header::{
        ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION,
        TE, TRAILER, TRANSFER_ENCODING, UPGRADE, USER_AGENT,
    },
};
use http_body_util::Full;
use model::{outcome::OutcomeClass, target_url::TargetUrl, tls::EndpointTls};
use std::sync::Arc;

pub(super) type HttpRequest = http::Request<Full<Bytes>>;

const USER_AGENT_VALUE: HeaderValue =
    HeaderValue::from_static(concat!("posthaste/", env!("CARGO_PKG_VERSION")));
const IDENTITY: HeaderValue = HeaderValue::from_static("identity");

/// A target URL in the HTTP library's own types, built once for a connection instead of for every request.
pub(super) struct Route {
    pub(super) target: TargetUrl,
    pub(super) tls: Option<Arc<EndpointTls>>,
    uri: Uri,
    host: HeaderValue,
}

impl Route {
    pub(super) fn new(target: TargetUrl, tls: Option<Arc<EndpointTls>>) -> Result<Self, SendError> {
        let unusable = || SendError::new(OutcomeClass::Connect, "the URL cannot be used in a request");
        let uri = target.path_and_query().parse().map_err(|_| unusable())?;
        let host = target.authority().parse().map_err(|_| unusable())?;
        Ok(Self { target, tls, uri, host })
    }

    /// Whether a connection that was opened for this route may be used for requests to `target` under these
    /// certificates.
    pub(super) fn serves(&self, target: &TargetUrl, tls: Option<&EndpointTls>) -> bool {
        self.target == *target && self.tls.as_deref() == tls
    }

    pub(super) fn uri(&self) -> &Uri {
        &self.uri
    }

    pub(super) fn host(&self) -> &HeaderValue {
        &self.host
    }

    /// Renders a request. Among headers of the same name the endpoint's wins over the operator's (`source`), and the
    /// contract's over both.
    pub(super) fn render(
        &self,
        method: &Method,
        request: &mut OutboundRequest,
        source: &[(String, String)],
    ) -> Result<HttpRequest, SendError> {
        let given = request.headers.len() + request.extra_headers.len() + source.len();
        let mut headers = HeaderMap::with_capacity(given + 5);
        headers.insert(HOST, self.host.clone());
        headers.insert(USER_AGENT, USER_AGENT_VALUE);
        for (name, value) in source.iter().chain(request.extra_headers.iter()) {
            put(&mut headers, name, HeaderValue::from_bytes(value.as_bytes()).ok())?;
        }
        for (name, value) in request.headers.drain(..) {
            put(&mut headers, &name, HeaderValue::try_from(value).ok())?;
        }
        headers.insert(ACCEPT_ENCODING, IDENTITY);
        let has_body = method == Method::POST;
        if has_body && request.body.is_empty() {
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        let body = if has_body { request.body.clone() } else { Bytes::new() };
        let mut message = HttpRequest::new(Full::new(body));
        *message.method_mut() = method.clone();
        *message.uri_mut() = self.uri.clone();
        *message.headers_mut() = headers;
        Ok(message)
    }
}

fn put(headers: &mut HeaderMap, name: &str, value: Option<HeaderValue>) -> Result<(), SendError> {
    let unsendable = || SendError::new(OutcomeClass::Local, "a header of the request cannot be sent");
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| unsendable())?;
    if is_reserved(&name) {
        return Err(unsendable());
    }
    headers.insert(name, value.ok_or_else(unsendable)?);
    Ok(())
}

fn is_reserved(name: &HeaderName) -> bool {
    const OURS: [HeaderName; 10] = [
        HOST,
        CONTENT_LENGTH,
        CONNECTION,
        TRANSFER_ENCODING,
        TE,
        TRAILER,
        UPGRADE,
        EXPECT,
        PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION,
    ];
    OURS.contains(name) || matches!(name.as_str(), "keep-alive" | "proxy-connection")
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::id::EndpointId;
    use std::{borrow::Cow, time::Duration};

    fn render(
        headers: &[(&'static str, &str)],
        extra: &[(&str, &str)],
        body: &'static str,
    ) -> Result<HttpRequest, SendError> {
        let target = TargetUrl::from_stored("https://example.com:8443/in?x=1").unwrap();
        let mut request = OutboundRequest {
            endpoint_id: EndpointId::from_i64(1),
            target: target.clone(),
            headers: headers.iter().map(|&(name, value)| (Cow::Borrowed(name), value.to_owned())).collect(),
            extra_headers: extra.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect(),
            body: Bytes::from_static(body.as_bytes()),
            timeout: Duration::from_secs(1),
            tls: None,
            https_only: false,
            fresh: false,
        };
        let source = [("x-source".to_owned(), "eu-1".to_owned()), ("x-event".to_owned(), "no".to_owned())];
        Route::new(target, None)?.render(&Method::POST, &mut request, &source)
    }

    #[test]
    fn contract_headers_win_over_static_ones_and_reserved_ones_over_all() {
        let message = render(
            &[("X-Event", "paid"), ("accept-encoding", "gzip")],
            &[("x-event", "forged"), ("authorization", "Bearer x"), ("user-agent", "theirs")],
            "{}",
        )
        .unwrap();
        let headers: Vec<_> =
            message.headers().iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(
            headers,
            [
                ("host", "example.com:8443"),
                ("user-agent", "theirs"),
                ("x-source", "eu-1"),
                ("x-event", "paid"),
                ("authorization", "Bearer x"),
                ("accept-encoding", "identity")
            ]
        );
        assert_eq!((message.uri().to_string().as_str(), message.method().as_str()), ("/in?x=1", "POST"));
    }

    #[test]
    fn headers_that_would_break_the_framing_are_not_sent() {
        for (name, value) in [
            ("x", "a\r\nb: c"),
            ("x", "a\nb"),
            ("x", "a\0b"),
            ("x\r\ny", "1"),
            ("x y", "1"),
            ("", "1"),
            ("Host", "evil.example"),
            ("Content-Length", "0"),
            ("Transfer-Encoding", "chunked"),
            ("Connection", "upgrade"),
            ("Keep-Alive", "x"),
            ("Proxy-Connection", "x"),
            ("Expect", "100-continue"),
        ] {
            for fault in [render(&[(name, value)], &[], "{}"), render(&[], &[(name, value)], "{}")] {
                assert_eq!(fault.map(|_| ()).unwrap_err().class, OutcomeClass::Local, "{name:?}: {value:?}");
            }
        }
    }
}
