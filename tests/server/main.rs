//! Tests of the HTTP server loop with real sockets.

use axum::{
    Router,
    routing::{get, post},
};
use posthaste::{
    runtime::{Shutdown, ShutdownHandle},
    server::{ServerLimits, serve},
};
use std::{net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::timeout,
};

const SOON: Duration = Duration::from_secs(10);
const GET: &str = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";

async fn start(limits: ServerLimits) -> (SocketAddr, ShutdownHandle, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let (handle, shutdown) = Shutdown::new();
    let router =
        Router::new().route("/", get(async || "here")).route("/echo", post(async |body: String| body));
    let serving = tokio::spawn(async move {
        serve(vec![listener], router, limits, shutdown.graceful(), shutdown.forced()).await;
    });
    (address, handle, serving)
}

async fn read_some(stream: &mut TcpStream) -> String {
    let mut buffer = vec![0; 4096];
    let read = timeout(SOON, stream.read(&mut buffer)).await.expect("an answer in time").unwrap_or(0);
    String::from_utf8_lossy(&buffer[..read]).into_owned()
}

async fn read_to_end(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset after the answer is as good as an end.
    let _ = timeout(SOON, stream.read_to_end(&mut bytes)).await.expect("an end in time");
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn a_connection_serves_many_requests_and_a_soft_stop_closes_it() {
    let (address, handle, serving) = start(ServerLimits::default()).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    for _ in 0..3 {
        stream.write_all(GET.as_bytes()).await.unwrap();
        assert!(read_some(&mut stream).await.starts_with("HTTP/1.1 200 OK"));
    }
    handle.stop_gracefully();
    assert_eq!(read_to_end(&mut stream).await, "");
    timeout(SOON, serving).await.expect("served to the end").unwrap();
    assert!(TcpStream::connect(address).await.is_err(), "the listener is closed");
}

#[tokio::test]
async fn a_request_under_way_is_answered_after_a_soft_stop() {
    let (address, handle, serving) = start(ServerLimits::default()).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nhello";
    stream.write_all(head.as_bytes()).await.unwrap();
    // The server has the head once it accepts further connections, because connections are accepted in order.
    let mut other = TcpStream::connect(address).await.unwrap();
    other.write_all(GET.as_bytes()).await.unwrap();
    assert!(read_some(&mut other).await.starts_with("HTTP/1.1 200"));
    handle.stop_gracefully();
    assert_eq!(read_to_end(&mut other).await, "");
    stream.write_all(b"world").await.unwrap();
    assert!(read_to_end(&mut stream).await.ends_with("helloworld"));
    timeout(SOON, serving).await.expect("served to the end").unwrap();
}

#[tokio::test]
async fn a_hard_stop_does_not_wait_for_requests() {
    let (address, handle, serving) = start(ServerLimits::default()).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&GET.as_bytes()[..10]).await.unwrap();
    handle.force_stop();
    timeout(SOON, serving).await.expect("stopped").unwrap();
    assert_eq!(read_to_end(&mut stream).await, "");
}

#[tokio::test]
async fn a_head_that_does_not_end_and_a_client_that_says_nothing_are_closed() {
    let limits = ServerLimits {
        head_timeout: Duration::from_secs(1),
        idle_timeout: Duration::from_secs(2),
        ..ServerLimits::default()
    };
    let (address, _handle, _serving) = start(limits).await;
    let mut slow = TcpStream::connect(address).await.unwrap();
    let mut silent = TcpStream::connect(address).await.unwrap();
    let dripping = async {
        let mut bytes = GET.bytes().cycle();
        // Each byte alone would be quick enough.
        while let Some(byte) = bytes.next()
            && slow.write_all(&[byte.max(b'a')]).await.is_ok()
        {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    timeout(SOON, dripping).await.expect("the slow one is closed");
    assert_eq!(read_to_end(&mut silent).await, "");
}

#[tokio::test]
async fn beyond_the_maximum_of_connections_the_next_one_waits() {
    let (address, _handle, _serving) =
        start(ServerLimits { connections_max: 1, ..ServerLimits::default() }).await;
    let mut first = TcpStream::connect(address).await.unwrap();
    first.write_all(GET.as_bytes()).await.unwrap();
    assert!(read_some(&mut first).await.starts_with("HTTP/1.1 200"));
    let mut second = TcpStream::connect(address).await.unwrap();
    second.write_all(GET.as_bytes()).await.unwrap();
    let mut buffer = [0; 1];
    assert!(timeout(Duration::from_millis(100), second.read(&mut buffer)).await.is_err());
    drop(first);
    assert!(read_some(&mut second).await.starts_with("HTTP/1.1 200"));
}
