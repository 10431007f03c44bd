//! The receiver's end of a connection: reads requests as the engine writes them, answers byte for byte as configured.

use super::receiver::ReceivedWebhook;
use bytes::Bytes;
use std::collections::HashMap;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::Instant,
};

/// Only the beginning of larger bodies is kept, so that a flood of them can be received.
const BODY_BYTES_KEPT: usize = 64 * 1024;

pub(crate) struct ReceiverConnection {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl ReceiverConnection {
    pub(super) fn new(stream: TcpStream) -> Self {
        // Without it an answer could wait for a packet that never comes.
        let _ = stream.set_nodelay(true);
        Self { stream, unread: Vec::new() }
    }

    /// Reads one whole request with a content-length; `None` when the sender has closed or breaks off.
    pub(super) async fn request(&mut self) -> Option<ReceivedWebhook> {
        loop {
            if let Some(receipt) = self.take_request() {
                return Some(receipt);
            }
            if self.stream.read_buf(&mut self.unread).await.ok()? == 0 {
                return None;
            }
        }
    }

    fn take_request(&mut self) -> Option<ReceivedWebhook> {
        let head_len = self.unread.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
        let head = String::from_utf8_lossy(&self.unread[..head_len]).into_owned();
        let mut lines = head.trim_end().split("\r\n");
        let mut request_line = lines.next()?.split(' ');
        let method = request_line.next()?.to_owned();
        let path = request_line.next()?.to_owned();
        let headers: HashMap<String, String> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let body_len = headers.get("content-length").map_or(0, |len| len.parse::<usize>().unwrap());
        if self.unread.len() < head_len + body_len {
            return None;
        }
        let rest = self.unread.split_off(head_len + body_len);
        let mut body = std::mem::replace(&mut self.unread, rest);
        body.drain(..head_len);
        body.truncate(BODY_BYTES_KEPT);
        let body = Bytes::from(body);
        Some(ReceivedWebhook { method, path, headers, body, at: Instant::now(), answered: None })
    }

    pub(super) async fn answer(&mut self, status: u16) -> bool {
        self.send(format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n").as_bytes()).await
    }

    /// Sends bytes; false once the other side is gone.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok()
    }

    /// Sends nothing until the sender closes the connection.
    pub(crate) async fn hang(mut self) {
        let mut sink = [0; 1024];
        while self.stream.read(&mut sink).await.is_ok_and(|read| read > 0) {}
    }

    /// Closes so that the other side sees a reset.
    pub(super) fn reset(self) {
        let _ = self.stream.set_zero_linger();
    }
}
