//! A CONNECT proxy that leads every tunnel to this machine's 127.0.0.1, at the requested port, and records the
//! requests.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

pub(crate) struct ConnectProxy {
    pub(crate) address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    listening: JoinHandle<()>,
}

impl ConnectProxy {
    /// Starts the proxy at this address; port 0 takes any free port.
    pub(crate) async fn start(address: &str) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let noted = heads.clone();
        let listening = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, noted.clone()));
            }
        });
        Self { address, heads, listening }
    }

    /// The requests for tunnels, in their order.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    /// Stops accepting connections; those that are open stay.
    pub(crate) async fn close(self) {
        self.listening.abort();
        let _ = self.listening.await;
    }
}

async fn serve(mut stream: TcpStream, heads: Arc<Mutex<Vec<String>>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut head).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let head = String::from_utf8(head).unwrap();
    let port = head.split(' ').nth(1).and_then(|goal| goal.rsplit(':').next()).unwrap().parse().unwrap();
    heads.lock().unwrap().push(head);
    match TcpStream::connect(("127.0.0.1", port)).await {
        Err(_) => drop(stream.write_all(b"HTTP/1.1 502 Bad Gateway\r\n\r\n").await),
        Ok(mut onward) => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
            let _ = copy_bidirectional(&mut stream, &mut onward).await;
        }
    }
}
