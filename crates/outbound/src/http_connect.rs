//! HTTP CONNECT: sends one request to the proxy and reads one bounded answer. Bytes that come with a success fail the attempt.
//!
//! `check_reply` decides which answers count against the receiver; `docs/decisions/0009-own-proxy-tunnel.md` gives
//! the reasons.

use super::{
    proxy::{DialTarget, closed_early},
    send_error::SendError,
    stream::ProxiedStream,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use model::{outcome::OutcomeClass, proxy::ProxyCredentials};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const HEAD_BYTES_MAX: usize = 16 * 1024;
const HEAD_END: &[u8] = b"\r\n\r\n";

/// Asks for a tunnel to `goal`.
pub(super) async fn open_tunnel(
    link: &mut ProxiedStream,
    goal: &DialTarget<'_>,
    credentials: Option<&ProxyCredentials>,
) -> Result<(), SendError> {
    let authorization = credentials.map_or_else(String::new, |ProxyCredentials { user, password }| {
        let encoded = BASE64_STANDARD.encode(format!("{user}:{password}"));
        format!("proxy-authorization: Basic {encoded}\r\n")
    });
    let version = env!("CARGO_PKG_VERSION");
    let request = format!(
        "CONNECT {goal} HTTP/1.1\r\nhost: {goal}\r\nuser-agent: posthaste/{version}\r\n{authorization}\r\n"
    );
    let sent = async {
        link.write_all(request.as_bytes()).await?;
        link.flush().await
    };
    sent.await.map_err(|error| closed_early(&error))?;
    check_reply(&head(link).await?)
}

/// Reads up to the empty line. Bytes that come with a success are an error of the proxy: a receiver does not speak first.
async fn head(link: &mut ProxiedStream) -> Result<Vec<u8>, SendError> {
    let mut answer = Vec::with_capacity(512);
    loop {
        let read = link.read_buf(&mut answer).await.map_err(|error| closed_early(&error))?;
        let end = answer.windows(HEAD_END.len()).position(|window| window == HEAD_END);
        match end {
            Some(at) if at + HEAD_END.len() == answer.len() => return Ok(answer),
            // A refusal is followed by an explanation, which is not read.
            Some(at) if status(&answer).is_some_and(|status| !is_success(status)) => {
                answer.truncate(at + HEAD_END.len());
                return Ok(answer);
            }
            Some(_) => return Err(SendError::proxy("sent more than its answer")),
            None if read == 0 => return Err(SendError::proxy("closed the connection instead of answering")),
            None if answer.len() > HEAD_BYTES_MAX => {
                return Err(SendError::proxy("sent an answer without end"));
            }
            None => {}
        }
    }
}

fn is_success(status: u16) -> bool {
    (200..300).contains(&status)
}

fn status(head: &[u8]) -> Option<u16> {
    let rest = head.strip_prefix(b"HTTP/1.1 ").or_else(|| head.strip_prefix(b"HTTP/1.0 "))?;
    let (digits, rest) = rest.split_first_chunk::<3>()?;
    let ends = rest.starts_with(b" ") || rest.starts_with(b"\r\n");
    let is_status = ends && digits.iter().all(u8::is_ascii_digit);
    is_status.then(|| std::str::from_utf8(digits).ok()?.parse().ok())?
}

fn check_reply(head: &[u8]) -> Result<(), SendError> {
    let Some(status) = status(head) else { return Err(SendError::proxy("does not speak HTTP")) };
    match status {
        _ if is_success(status) => Ok(()),
        403 => Err(address_refused(status)),
        407 if is_from_smokescreen(head) => Err(address_refused(status)),
        401 | 407 => Err(SendError::proxy("does not accept our credentials")),
        502..=504 => Err(SendError::new(
            OutcomeClass::Connect,
            format!("the proxy could not reach the host (it answered {status})"),
        )),
        _ => Err(SendError::proxy(format!("answered {status} instead of opening a tunnel"))),
    }
}

fn address_refused(status: u16) -> SendError {
    SendError::new(
        OutcomeClass::AddressRefused,
        format!("the proxy does not allow the address (it answered {status})"),
    )
}

/// Smokescreen refuses an address with 407, and says why in a header of its own.
fn is_from_smokescreen(head: &[u8]) -> bool {
    const NAME: &[u8] = b"x-smokescreen-error:";
    head.split(|byte| *byte == b'\n')
        .any(|line| line.get(..NAME.len()).is_some_and(|name| name.eq_ignore_ascii_case(NAME)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_proxys_answers_about_the_receiver_count_against_it() {
        let class = |answer: &str| check_reply(answer.as_bytes()).map_err(|fault| fault.class);
        for answer in ["HTTP/1.1 200 Connection established\r\n\r\n", "HTTP/1.0 204\r\n\r\n"] {
            assert_eq!(class(answer), Ok(()), "{answer}");
        }
        for (answer, expected) in [
            ("HTTP/1.1 502 Bad Gateway\r\n\r\n", OutcomeClass::Connect),
            ("HTTP/1.1 503 No\r\n\r\n", OutcomeClass::Connect),
            ("HTTP/1.1 504\r\n\r\n", OutcomeClass::Connect),
            ("HTTP/1.1 403 Forbidden\r\n\r\n", OutcomeClass::AddressRefused),
            (
                "HTTP/1.1 407 Request rejected\r\nX-Smokescreen-Error: no\r\n\r\n",
                OutcomeClass::AddressRefused,
            ),
            ("HTTP/1.1 407 No\r\nproxy-authenticate: Basic\r\n\r\n", OutcomeClass::Local),
            ("HTTP/1.1 407 No\r\n\r\n", OutcomeClass::Local),
            ("HTTP/1.1 401 No\r\n\r\n", OutcomeClass::Local),
            ("HTTP/1.1 500 Oops\r\n\r\n", OutcomeClass::Local),
            ("HTTP/1.1 405 Not here\r\n\r\n", OutcomeClass::Local),
            ("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1/\r\n\r\n", OutcomeClass::Local),
            ("HTTP/1.1 100 Continue\r\n\r\n", OutcomeClass::Local),
            ("HTTP/2 200\r\n\r\n", OutcomeClass::Local),
            ("HTTP/1.1 2000 No\r\n\r\n", OutcomeClass::Local),
            ("HTTP/1.1 2x0 No\r\n\r\n", OutcomeClass::Local),
            ("", OutcomeClass::Local),
        ] {
            assert_eq!(class(answer), Err(expected), "{answer}");
        }
    }
}
