//! HTTP requests of the command line to a server that the user names.
//!
//! No address policy holds here, because the person who types the address also runs the command. Never used for URLs that
//! a tenant gave. Otherwise as careful as with receivers: no proxies, no redirects, one deadline, bounded.

use super::{
    connector::Connector,
    http_request::Route,
    metered_stream::{AnswerMeter, MeteredStream},
    progress::{AttemptPhase, AttemptProgress},
    resolve::SystemResolver,
    send_error::SendError,
    tls::{self, EndpointConfigs, TlsError},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use model::{
    address_policy::AddressPolicy,
    outcome::OutcomeClass,
    target_url::{TargetUrl, TargetUrlError},
};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, timeout_at};

/// The largest page of any list is far smaller.
const ANSWER_BYTES_MAX: u32 = 16 * 1024 * 1024;

/// A request, with or without a JSON body.
#[derive(Debug)]
pub struct ClientRequest {
    pub method: Method,
    pub target: TargetUrl,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// From the look-up of the name to the last byte of the answer.
    pub timeout: Duration,
}

/// No complete answer came; holds the reason as text.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ClientError(String);

impl From<SendError> for ClientError {
    fn from(fault: SendError) -> Self {
        Self(fault.message.into_owned())
    }
}

/// Sends requests, each on a connection of its own.
pub struct CliClient {
    policy: AddressPolicy,
    dialer: Connector,
}

impl CliClient {
    pub fn new() -> Result<Self, TlsError> {
        let everywhere = ["0.0.0.0/0", "::/0"].iter().filter_map(|net| net.parse().ok()).collect();
        let roots = tls::roots(None)?;
        let resolver = Arc::new(SystemResolver::default());
        Ok(Self {
            policy: AddressPolicy { allow: everywhere, own_addresses: Vec::new(), dev: true },
            dialer: Connector {
                resolver,
                tls: tls::connector(roots.clone())?,
                roots,
                endpoint_configs: EndpointConfigs::default(),
                proxy: None,
            },
        })
    }

    /// Parses a URL that the user typed.
    pub fn target(&self, url: &str) -> Result<TargetUrl, TargetUrlError> {
        TargetUrl::parse(url, &self.policy)
    }

    /// Sends a request and returns the whole answer, whatever its status.
    pub async fn send(&self, client_request: ClientRequest) -> Result<Response<Bytes>, ClientError> {
        let started = Instant::now();
        let (deadline, timeout) = (started + client_request.timeout, client_request.timeout);
        let mut progress = AttemptProgress::new(started);
        let ended = timeout_at(deadline, self.exchange(client_request, deadline, &mut progress)).await;
        Ok(ended.unwrap_or_else(|_| Err(progress.timed_out(timeout)))?)
    }

    async fn exchange(
        &self,
        client_request: ClientRequest,
        deadline: Instant,
        progress: &mut AttemptProgress,
    ) -> Result<Response<Bytes>, SendError> {
        let route = Route::new(client_request.target.clone(), None)?;
        let request = request(&client_request, &route);
        let (stream, _) = self.dialer.open_stream(&self.policy, &route, deadline, progress).await?;
        let meter = Arc::new(AnswerMeter::reading_at_most(ANSWER_BYTES_MAX));
        let wire = TokioIo::new(MeteredStream::new(stream, meter.clone(), None));
        let (mut sender, connection) =
            http1::handshake(wire).await.map_err(|error| SendError::exchange(&error))?;
        progress.phase = AttemptPhase::Awaiting;
        // Ends with the answer: the sender is dropped then.
        tokio::spawn(connection);
        let answer = sender.send_request(request).await.map_err(|error| SendError::exchange(&error))?;
        let (head, body) = answer.into_parts();
        progress.phase = AttemptPhase::Reading;
        let body = body.collect().await.map_err(|error| {
            if meter.is_exhausted() {
                return SendError::new(OutcomeClass::Connect, "the answer is too large");
            }
            SendError::exchange(&error)
        })?;
        Ok(Response::from_parts(head, body.to_bytes()))
    }
}

fn request(client_request: &ClientRequest, route: &Route) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(client_request.body.clone()));
    *request.method_mut() = client_request.method.clone();
    *request.uri_mut() = route.uri().clone();
    *request.headers_mut() = client_request.headers.clone();
    let headers = request.headers_mut();
    headers.insert(header::HOST, route.host().clone());
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    if !client_request.body.is_empty() {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    request
}
