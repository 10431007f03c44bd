//! The kept part of a receiver's answer: status, headers, start of the body. Bytes are kept as they came: not
//! decompressed, decoded or trusted.

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};

/// After this much of a body the connection is closed and the status counts.
const BODY_BYTES_READ_MAX: usize = 64 * 1024;
const BODY_BYTES_KEPT_MAX: usize = 1024;
const HEADERS_KEPT_MAX: usize = 32;
const HEADER_BYTES_KEPT_MAX: usize = 256;
const RETRY_AFTER_BYTES_MAX: usize = 64;

#[derive(Default)]
pub(super) struct ReceivedAnswer {
    pub(super) status: Option<u16>,
    pub(super) retry_after: Option<String>,
    pub(super) headers: Vec<(String, Bytes)>,
    pub(super) body: Vec<u8>,
    body_bytes_read: usize,
}

impl ReceivedAnswer {
    /// Notes status and headers. A 2xx keeps no headers: they are shown only for what failed.
    pub(super) fn begin(&mut self, status: StatusCode, headers: &HeaderMap) {
        self.status = Some(status.as_u16());
        if status.is_success() {
            return;
        }
        self.retry_after = headers.get(header::RETRY_AFTER).and_then(|value| {
            let text = value.to_str().ok()?;
            Some(text[..text.len().min(RETRY_AFTER_BYTES_MAX)].to_owned())
        });
        self.headers = headers
            .iter()
            .filter(|(name, _)| name.as_str().len() < HEADER_BYTES_KEPT_MAX)
            .take(HEADERS_KEPT_MAX)
            .map(|(name, value)| {
                let room = HEADER_BYTES_KEPT_MAX - name.as_str().len();
                let value = &value.as_bytes()[..value.len().min(room)];
                (name.as_str().to_owned(), Bytes::copy_from_slice(value))
            })
            .collect();
    }

    /// Keeps a piece of the body as far as there is room. False when no more should be read.
    pub(super) fn keep(&mut self, data: &[u8]) -> bool {
        let room = BODY_BYTES_KEPT_MAX - self.body.len();
        // Copied, so that the 8 KiB buffer it lies in can be read into again.
        self.body.extend_from_slice(&data[..data.len().min(room)]);
        self.body_bytes_read += data.len();
        self.body_bytes_read < BODY_BYTES_READ_MAX
    }
}

/// Whether the headers state the length twice. The answer is read, but bytes after it cannot be trusted.
pub(super) fn is_framing_doubtful(headers: &HeaderMap) -> bool {
    let lengths = headers.get_all(header::CONTENT_LENGTH).iter().count();
    lengths > 1 || (lengths > 0 && headers.contains_key(header::TRANSFER_ENCODING))
}
