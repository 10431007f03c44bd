//! Mutual TLS from end to end, with a receiver that requires the right certificate, through changes and restarts.

use crate::{
    backup::posthaste,
    harness::{
        NodeFolder, TestClient, attempt_classes,
        certificates::{Authority, acceptor, authority, identity},
        wait_for, wait_until,
    },
};
use rcgen::KeyPair;
use serde_json::{Value, json};
use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::server::TlsStream;

const WAIT_LIMIT: Duration = Duration::from_secs(30);

/// The certificate of each request that was answered, in order, and its path.
type SeenRequests = Arc<Mutex<Vec<(Vec<u8>, String)>>>;

async fn receiver(authority: &Authority) -> (SocketAddr, SeenRequests) {
    let acceptor = acceptor(&identity("127.0.0.1", Some(authority), |_| {}), Some(authority));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, seen) = (listener.local_addr().unwrap(), SeenRequests::default());
    let noted = seen.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, noted) = (acceptor.clone(), noted.clone());
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    answer(stream, noted).await;
                }
            });
        }
    });
    (address, seen)
}

async fn answer(mut stream: TlsStream<TcpStream>, seen: SeenRequests) {
    let certificate = stream.get_ref().1.peer_certificates().unwrap()[0].to_vec();
    let mut bytes = Vec::new();
    while stream.read_buf(&mut bytes).await.is_ok_and(|read| read > 0) {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some(head) = text.find("\r\n\r\n") else { continue };
        let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        if bytes.len() < head + 4 + length.unwrap_or(0) {
            continue;
        }
        bytes.clear();
        let path = text.split(' ').nth(1).unwrap().to_owned();
        seen.lock().unwrap().push((certificate.clone(), path));
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    }
}

fn tls((certificate, key): &(rcgen::Certificate, KeyPair), authority: &Authority) -> Value {
    json!({
        "client_certificate": certificate.pem(), "client_key": key.serialize_pem(), "ca": authority.pem(),
    })
}

async fn delivered_with(client: &TestClient, seen: &SeenRequests, certificate: &rcgen::Certificate) {
    let before = seen.lock().unwrap().len();
    client.publish("a", &json!({ "type": "t", "data": 1 })).await;
    wait_until("one more came in", WAIT_LIMIT, async || seen.lock().unwrap().len() > before).await;
    assert_eq!(seen.lock().unwrap()[before].0, certificate.der().to_vec());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_current_certificate_is_used_through_changes_restarts_and_a_restored_backup() {
    let (home, authority) = (NodeFolder::new(), authority("private"));
    let (address, seen) = receiver(&authority).await;
    let [first, second] = ["first", "second"].map(|name| identity(name, Some(&authority), |_| {}));
    let mut node = home.start().await;
    let client = node.client.clone();
    client.make_app("a").await;
    let (url, health) = (format!("https://{address}/e"), format!("https://{address}/health"));
    let more = json!({ "tls": tls(&first, &authority), "health_url": health });
    client.make_endpoint("a", "e", &url, more).await;
    delivered_with(&client, &seen, &first.0).await;
    delivered_with(&client, &seen, &first.0).await;
    let endpoint = "/v1/apps/a/endpoints/e";
    client.patch(endpoint, &json!({ "tls": tls(&second, &authority) })).await.expect(200);
    delivered_with(&client, &seen, &second.0).await;

    client.post(&format!("{endpoint}/ping"), &json!({})).await.expect(202);
    wait_until("its health was asked for", WAIT_LIMIT, async || {
        seen.lock().unwrap().last().is_some_and(|(_, path)| path == "/health")
    })
    .await;
    assert_eq!(seen.lock().unwrap().last().unwrap().0, second.0.der().to_vec());

    node.kill().await;
    let mut node = home.start().await;
    delivered_with(&node.client, &seen, &second.0).await;
    let copy = home.folder().join("copy.db");
    assert!(posthaste("backup", &home.store(), &copy).status.success());
    node.stop().await;
    let again = NodeFolder::new();
    assert!(posthaste("restore", &again.store(), &copy).status.success());
    let node = again.start().await;
    delivered_with(&node.client, &seen, &second.0).await;

    // The control: without a certificate the receiver refuses the connection.
    node.client.patch(endpoint, &json!({ "tls": { "ca": authority.pem() } })).await.expect(200);
    let published = node.client.publish("a", &json!({ "type": "t", "data": 2 })).await;
    let id = published["deliveries"][0]["id"].as_str().unwrap().to_owned();
    let delivery = wait_for("it was tried", WAIT_LIMIT, async || {
        let delivery = node.client.delivery("a", &id).await;
        (!attempt_classes(&delivery).is_empty()).then_some(delivery)
    })
    .await;
    assert!(["tls", "connect"].contains(&attempt_classes(&delivery)[0]), "{delivery:#}");
}
