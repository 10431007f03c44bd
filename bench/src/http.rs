//! An HTTP client over plain loopback connections, which are kept and used again.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, Uri, client::conn::http1, client::conn::http1::SendRequest};
use hyper_util::rt::TokioIo;
use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::net::TcpStream;

/// Refused connections are tried again for so long, which a restart of the server may take.
const CONNECT_WITHIN: Duration = Duration::from_mins(1);
const CONNECT_PAUSE: Duration = Duration::from_millis(20);

/// Why a request has no answer.
#[derive(Debug)]
pub enum Failure {
    /// The server cannot have seen it.
    NotSent(String),
    /// The server may have seen it.
    NoAnswer(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotSent(why) => write!(formatter, "not sent: {why}"),
            Self::NoAnswer(why) => write!(formatter, "no answer: {why}"),
        }
    }
}

impl std::error::Error for Failure {}

/// Host and port of a URL. Only `http://` is spoken here.
pub fn authority(url: &str) -> Result<(String, Uri)> {
    let uri: Uri = url.parse().with_context(|| format!("{url} is no URL"))?;
    ensure!(uri.scheme_str() == Some("http"), "{url} does not begin with http://");
    let authority = uri.authority().with_context(|| format!("{url} names no host"))?;
    let with_port =
        if authority.port().is_some() { authority.to_string() } else { format!("{authority}:80") };
    let path = uri.path_and_query().map_or("/", hyper::http::uri::PathAndQuery::as_str);
    Ok((with_port, path.parse()?))
}

pub struct Client {
    authority: String,
    /// The one used last is used next, so that a slow pace needs few connections.
    idle: Mutex<Vec<SendRequest<Full<Bytes>>>>,
    connections: AtomicU64,
}

impl Client {
    pub fn to(authority: &str) -> Self {
        Self { authority: authority.to_owned(), idle: Mutex::default(), connections: AtomicU64::new(0) }
    }

    /// Connections opened so far.
    pub fn connections(&self) -> u64 {
        self.connections.load(Relaxed)
    }

    /// Sends the request and reads the whole answer. A request that no server has seen is sent again.
    pub async fn request(&self, mut request: Request<Full<Bytes>>) -> Result<Response<Bytes>, Failure> {
        loop {
            let mut connection = match self.take_idle().await {
                Some(connection) => connection,
                None => self.connect().await?,
            };
            match connection.try_send_request(request).await {
                Ok(response) => {
                    let (head, body) = response.into_parts();
                    let body = body.collect().await.map_err(|error| Failure::NoAnswer(error.to_string()))?;
                    self.lock_idle().push(connection);
                    return Ok(Response::from_parts(head, body.to_bytes()));
                }
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(Failure::NoAnswer(error.into_error().to_string())),
                },
            }
        }
    }

    async fn take_idle(&self) -> Option<SendRequest<Full<Bytes>>> {
        loop {
            let mut connection = self.lock_idle().pop()?;
            if connection.ready().await.is_ok() {
                return Some(connection);
            }
        }
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, Failure> {
        let not_sent = |why: String| Failure::NotSent(format!("{}: {why}", self.authority));
        let connecting = async {
            loop {
                match TcpStream::connect(&self.authority).await {
                    Ok(stream) => return stream,
                    Err(_) => tokio::time::sleep(CONNECT_PAUSE).await,
                }
            }
        };
        let stream = tokio::time::timeout(CONNECT_WITHIN, connecting)
            .await
            .map_err(|_| not_sent("no connection within a minute".to_owned()))?;
        stream.set_nodelay(true).map_err(|error| not_sent(error.to_string()))?;
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| not_sent(error.to_string()))?;
        // How the connection ended is seen by the request on it.
        tokio::spawn(async move { drop(connection.await) });
        self.connections.fetch_add(1, Relaxed);
        Ok(sender)
    }

    fn lock_idle(&self) -> std::sync::MutexGuard<'_, Vec<SendRequest<Full<Bytes>>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_split_into_authority_and_path() {
        let (host, path) = authority("http://127.0.0.1:8071/api?x=1").unwrap();
        assert_eq!((host.as_str(), path.to_string().as_str()), ("127.0.0.1:8071", "/api?x=1"));
        assert_eq!(authority("http://localhost").unwrap().0, "localhost:80");
        assert!(authority("https://localhost").is_err());
        assert!(authority("localhost").is_err());
    }
}
