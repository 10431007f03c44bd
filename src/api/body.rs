//! Reads request bodies. Each body has a size limit and a time limit, and all bodies together a memory limit.

use super::problem::{ErrorCode, Problem};
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

const BODY_READ_TIMEOUT: Duration = Duration::from_secs(30);
const DRAINED_BYTES_MAX: usize = 8 * 1024 * 1024;
const BODY_DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// Limit for all bodies in memory at the same time.
const BUFFERED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Reads bodies and counts how many bytes of them are in memory.
#[derive(Debug)]
pub(super) struct BodyReader {
    bytes_max: usize,
    buffered_bytes: Arc<AtomicUsize>,
}

/// A body in memory, counted until it is dropped.
pub(super) struct BodyGuard {
    pub bytes: Bytes,
    _count: BodyBytes,
}

struct BodyBytes {
    bytes: usize,
    total: Arc<AtomicUsize>,
}

impl BodyBytes {
    /// Raises this body's count to `bytes`. Fails if all bodies together exceed the limit.
    fn grow_to(&mut self, bytes: usize) -> Result<(), Problem> {
        let more = bytes.saturating_sub(self.bytes);
        self.bytes += more;
        if self.total.fetch_add(more, Ordering::Relaxed) + more <= BUFFERED_BYTES_MAX {
            return Ok(());
        }
        Err(Problem::new(ErrorCode::Overloaded, "Too many bodies are being read; try again shortly."))
    }
}

impl Drop for BodyBytes {
    fn drop(&mut self) {
        self.total.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl BodyReader {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, buffered_bytes: Arc::default() }
    }

    /// Reads the whole body. A body announced as too large is refused before it is read.
    pub(super) async fn read(&self, headers: &HeaderMap, body: Body) -> Result<BodyGuard, Problem> {
        self.read_up_to(self.bytes_max, headers, body).await
    }

    /// Reads a body with a size limit above the usual one.
    pub(super) async fn read_up_to(
        &self,
        bytes_max: usize,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<BodyGuard, Problem> {
        let count = BodyBytes { bytes: 0, total: self.buffered_bytes.clone() };
        read(headers, body, bytes_max.max(self.bytes_max), count).await
    }
}

async fn read(
    headers: &HeaderMap,
    body: Body,
    bytes_max: usize,
    count: BodyBytes,
) -> Result<BodyGuard, Problem> {
    if headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return Err(Problem::new(ErrorCode::UnsupportedEncoding, "Send the body without Content-Encoding."));
    }
    let announced =
        headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|bytes| bytes > bytes_max as u64) {
        // A client that waits for "100 Continue" sends nothing more, so there is nothing to drain.
        if !headers.contains_key(header::EXPECT) {
            drain(body);
        }
        return Err(too_large(bytes_max));
    }
    let late = |_| Problem::new(ErrorCode::Timeout, "The body did not arrive within 30 seconds.");
    tokio::time::timeout(BODY_READ_TIMEOUT, collect(body, announced.unwrap_or(0) as usize, bytes_max, count))
        .await
        .map_err(late)?
}

async fn collect(
    mut body: Body,
    announced: usize,
    bytes_max: usize,
    mut count: BodyBytes,
) -> Result<BodyGuard, Problem> {
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let broken = |_| Problem::new(ErrorCode::Malformed, "The body broke off.");
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        let (so_far, with_this) = (first.len() + rest.len(), first.len() + rest.len() + data.len());
        if with_this > bytes_max {
            drain(body);
            return Err(too_large(bytes_max));
        }
        let takes = if so_far == 0 { with_this } else { announced.max(rest.capacity()).max(with_this) };
        if let Err(overloaded) = count.grow_to(takes) {
            drain(body);
            return Err(overloaded);
        }
        match (first.is_empty(), rest.is_empty()) {
            (true, true) => first = data,
            (_, true) => {
                // Reserved in one step: growing step by step leaves behind as much memory again as the body takes.
                rest.reserve(takes);
                rest.extend_from_slice(&first);
                rest.extend_from_slice(&data);
                first.clear();
            }
            (_, false) => rest.extend_from_slice(&data),
        }
    }
    let bytes = if rest.is_empty() { first } else { rest.freeze() };
    Ok(BodyGuard { bytes, _count: count })
}

/// Reads on for a while beside the answer, so that a client that is still sending can read it.
fn drain(mut body: Body) {
    tokio::spawn(tokio::time::timeout(BODY_DRAIN_TIMEOUT, async move {
        let mut drained = 0;
        while drained <= DRAINED_BYTES_MAX
            && let Some(Ok(frame)) = body.frame().await
        {
            drained += frame.data_ref().map_or(0, Bytes::len);
        }
    }));
}

fn too_large(bytes_max: usize) -> Problem {
    Problem::new(ErrorCode::TooLarge, format!("A body has at most {bytes_max} bytes."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    async fn read_plain(body: &'static str, bytes_max: usize) -> Result<Bytes, u16> {
        let held = BodyReader::new(bytes_max).read(&HeaderMap::new(), Body::from(body)).await;
        held.map(|held| held.bytes.clone()).map_err(|problem| problem.status().as_u16())
    }

    #[tokio::test]
    async fn the_size_limit_is_exact() {
        assert_eq!(read_plain("12345", 5).await.unwrap(), "12345");
        assert_eq!(read_plain("123456", 5).await, Err(413));
        assert_eq!(read_plain("", 5).await.unwrap(), "");
    }

    #[tokio::test]
    async fn several_frames_become_one_body_and_are_counted_together() {
        let frames = |count: usize| {
            let chunks = std::iter::repeat_n(b"ab".as_slice(), count);
            Body::new(FrameBody(chunks.map(Bytes::from_static).collect()))
        };
        let whole =
            BodyReader::new(6).read(&HeaderMap::new(), frames(3)).await.map(|held| held.bytes.clone());
        assert_eq!(whole.ok().unwrap(), "ababab");
        assert!(BodyReader::new(6).read(&HeaderMap::new(), frames(4)).await.is_err());
    }

    #[tokio::test]
    async fn all_bodies_together_have_a_limit_that_dropped_ones_free() {
        let reader = BodyReader::new(BUFFERED_BYTES_MAX);
        let read = async |bytes: usize| reader.read(&HeaderMap::new(), Body::from(vec![0; bytes])).await;
        let most = read(BUFFERED_BYTES_MAX - 10).await.ok().unwrap();
        assert_eq!(read(11).await.err().unwrap().status(), 429);
        assert!(read(10).await.is_ok());
        drop(most);
        assert!(read(11).await.is_ok());
    }

    #[tokio::test]
    async fn a_body_announced_as_too_large_is_refused() {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("99999999999"));
        let refused = BodyReader::new(5)
            .read(&headers, Body::from("x"))
            .await
            .err()
            .map(|problem| problem.status().as_u16());
        assert_eq!(refused, Some(413));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_ends_times_out() {
        let endless = Body::new(Stalled);
        let refused = BodyReader::new(5)
            .read(&HeaderMap::new(), endless)
            .await
            .err()
            .map(|problem| problem.status().as_u16());
        assert_eq!(refused, Some(408));
    }

    struct FrameBody(std::collections::VecDeque<Bytes>);
    struct Stalled;

    impl http_body::Body for FrameBody {
        type Data = Bytes;
        type Error = std::convert::Infallible;
        fn poll_frame(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
            std::task::Poll::Ready(self.0.pop_front().map(|data| Ok(http_body::Frame::data(data))))
        }
    }

    impl http_body::Body for Stalled {
        type Data = Bytes;
        type Error = std::convert::Infallible;
        fn poll_frame(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
            std::task::Poll::Pending
        }
    }
}
