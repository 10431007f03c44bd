//! HTTP/1.1 to the API byte by byte, to send also what no HTTP library would.

use serde_json::Value;
use std::{net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Longer than any answer may take, the slowest being the one to a body that never comes.
const RESPONSE_WAIT_MAX: Duration = Duration::from_secs(45);

pub(crate) struct RawConnection {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl RawConnection {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("the API listens");
        stream.set_nodelay(true).expect("a socket option");
        Self { stream, unread: Vec::new() }
    }

    /// Sends the bytes. False once the server has closed the connection.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok()
    }

    /// Reads the next response, `None` if the server closes instead.
    pub(crate) async fn answer(&mut self) -> Option<ApiResponse> {
        self.answer_to("GET").await
    }

    /// Like `answer`, for a method whose response has no body whatever its headers say.
    pub(crate) async fn answer_to(&mut self, method: &str) -> Option<ApiResponse> {
        let reading = async {
            loop {
                if let Some(answer) = self.take_answer(method) {
                    return Some(answer);
                }
                if self.stream.read_buf(&mut self.unread).await.ok()? == 0 {
                    return None;
                }
            }
        };
        tokio::time::timeout(RESPONSE_WAIT_MAX, reading).await.expect("the API answers in time")
    }

    fn take_answer(&mut self, method: &str) -> Option<ApiResponse> {
        let head_end = self.unread.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = String::from_utf8(self.unread[..head_end].to_vec()).expect("a head in ASCII");
        let mut lines = head.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().expect("a status");
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        if status == 100 {
            self.unread.drain(..head_end + 4);
            return self.take_answer(method);
        }
        let mut answer = ApiResponse { status, headers, body: Vec::new() };
        let length = answer.header("content-length").map_or(0, |length| length.parse().expect("a length"));
        let length = if method == "HEAD" || status == 204 { 0 } else { length };
        assert!(answer.header("transfer-encoding").is_none(), "answers say how long they are: {answer:?}");
        let whole = head_end + 4 + length;
        if self.unread.len() < whole {
            return None;
        }
        answer.body = self.unread[head_end + 4..whole].to_vec();
        self.unread.drain(..whole);
        Some(answer)
    }

    /// Whether the next bytes from the server are exactly these.
    pub(crate) async fn says(&mut self, expected: &[u8]) -> bool {
        let reading = async {
            while self.unread.len() < expected.len() {
                if !matches!(self.stream.read_buf(&mut self.unread).await, Ok(1..)) {
                    return false;
                }
            }
            let is_so = self.unread.starts_with(expected);
            self.unread.drain(..expected.len());
            is_so
        };
        tokio::time::timeout(RESPONSE_WAIT_MAX, reading).await.expect("it says something in time")
    }

    /// Whether the server has closed the connection already.
    pub(crate) fn is_closed_by_now(&self) -> bool {
        !matches!(self.stream.try_read(&mut [0]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
    }

    /// Whether the server closes the connection without sending more.
    pub(crate) async fn is_closed(&mut self) -> bool {
        let reading = self.stream.read_buf(&mut self.unread);
        let read = tokio::time::timeout(RESPONSE_WAIT_MAX, reading).await.expect("it closes or speaks");
        self.unread.is_empty() && !matches!(read, Ok(1..))
    }
}

/// The head of a request, with the key if there is one.
pub(crate) fn head(method: &str, path: &str, key: Option<&str>, headers: &[(&str, &str)]) -> String {
    use std::fmt::Write;
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: posthaste.test\r\n");
    if let Some(key) = key {
        write!(head, "authorization: Bearer {key}\r\n").expect("a string grows");
    }
    for (name, value) in headers {
        write!(head, "{name}: {value}\r\n").expect("a string grows");
    }
    head + "\r\n"
}

#[derive(Clone, Debug)]
pub(crate) struct ApiResponse {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// The parts of a problem that callers rely on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ProblemResponse {
    pub(crate) status: u16,
    pub(crate) code: String,
    pub(crate) field: Option<String>,
    pub(crate) detail: String,
}

impl ApiResponse {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        if self.body.is_empty() {
            return Value::Null;
        }
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {}", self.text()))
    }

    /// Returns the body; the response must have this status.
    #[track_caller]
    pub(crate) fn is(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        self.json()
    }

    /// Returns the problem; the response must have this status and code.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: &str) -> ProblemResponse {
        let refused = self.problem();
        assert_eq!((refused.status, refused.code.as_str()), (status, code), "{}", self.text());
        refused
    }

    /// Returns the field that a 422 response names.
    #[track_caller]
    pub(crate) fn invalid_field(&self) -> String {
        self.refused(422, "invalid").field.unwrap_or_default()
    }

    #[track_caller]
    pub(crate) fn problem(&self) -> ProblemResponse {
        assert!(self.status >= 400, "not refused: {} {}", self.status, self.text());
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let problem = self.json();
        assert_eq!(problem["status"], self.status, "{problem}");
        let text = |name: &str| problem[name].as_str().map(str::to_owned);
        ProblemResponse {
            status: self.status,
            code: text("code").unwrap_or_default(),
            field: text("field"),
            detail: text("detail").unwrap_or_default(),
        }
    }
}
