//! The whole module in a network of its own: canaries listen on every forbidden kind of address, and none may be
//! reached.
//!
//! The test runs itself again inside a network namespace without a route out, so that even a failure reaches no other
//! host.

use crate::receiver::{ScriptedResolver, assert_failed, client_with, post, post_within};
use posthaste::{
    domain::{address_policy::AddressPolicy, outcome::OutcomeClass},
    outbound::{ClientOptions, HttpClient, SystemResolver},
};
use std::{
    collections::BTreeSet,
    net::IpAddr,
    process::Command,
    sync::{Arc, Mutex},
};
use tokio::{io::AsyncWriteExt, net::TcpListener};

const PORT: u16 = 8099;
const INSIDE_TEST: &str = "ssrf::inside_the_namespace";

/// Addresses that the namespace gives itself. The last one is public, but there it is the machine's own.
const CANARIES: [&str; 15] = [
    "127.0.0.1",
    "127.8.8.8",
    "10.0.0.1",
    "100.64.0.1",
    "169.254.169.254",
    "172.16.5.4",
    "192.0.2.1",
    "192.168.1.1",
    "198.18.0.1",
    "203.0.113.7",
    "::1",
    "fd00:ec2::254",
    "fec0::1",
    "2001:db8::1",
    "93.184.216.34",
];

/// Other spellings and disguises, and the canary that each would reach.
const DISGUISES: [(&str, &str); 8] = [
    ("0.0.0.0", "127.0.0.1"),
    ("[::]", "::1"),
    ("2130706433", "127.0.0.1"),
    ("0x7f.1", "127.0.0.1"),
    ("0177.0.0.1", "127.0.0.1"),
    ("[::ffff:10.0.0.1]", "10.0.0.1"),
    ("[::ffff:a9fe:a9fe]", "169.254.169.254"),
    ("①⑨②.168.1.1", "192.168.1.1"),
];

#[test]
fn no_forbidden_address_is_reached_in_a_network_of_its_own() {
    let mut inside = Command::new("unshare");
    inside.args(["--map-root-user", "--net", "--"]).arg(std::env::current_exe().unwrap()).args([
        "--exact",
        INSIDE_TEST,
        "--ignored",
        "--nocapture",
    ]);
    for proxy in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        inside.env(proxy, format!("http://10.0.0.1:{PORT}"));
    }
    let output = inside.output().expect("this test needs `unshare` (package util-linux)");
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success() && said.contains("1 passed"),
        "this test needs the right to make a network namespace (root, or user namespaces), and it said:\n{said}"
    );
}

fn ip(arguments: &str) -> String {
    let output = Command::new("ip")
        .args(arguments.split(' '))
        .output()
        .expect("this test needs `ip` (package iproute2)");
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The canary addresses that were reached.
type Reached = Arc<Mutex<BTreeSet<IpAddr>>>;

async fn canaries() -> Reached {
    let reached = Reached::default();
    let listener = TcpListener::bind(("::", PORT)).await.unwrap();
    let count = Arc::clone(&reached);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            count.lock().unwrap().insert(stream.local_addr().unwrap().ip().to_canonical());
            let _ =
                stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").await;
        }
    });
    reached
}

fn url(host: &str) -> String {
    match host.parse() {
        Ok(IpAddr::V6(v6)) => format!("http://[{v6}]:{PORT}/"),
        _ => format!("http://{host}:{PORT}/"),
    }
}

#[tokio::test]
#[ignore = "run by no_forbidden_address_is_reached_in_a_network_of_its_own, inside the namespace"]
async fn inside_the_namespace() {
    let links = ip("-o link show");
    assert_eq!(links.lines().count(), 1, "not inside a network namespace of its own: {links}");
    ip("link set lo up");
    for canary in CANARIES.iter().filter(|canary| !["127.0.0.1", "127.8.8.8", "::1"].contains(canary)) {
        match canary.parse().unwrap() {
            IpAddr::V4(v4) => ip(&format!("address add {v4}/32 dev lo")),
            IpAddr::V6(v6) => ip(&format!("address add {v6}/128 dev lo nodad")),
        };
    }
    let reached = canaries().await;

    let names: Vec<(String, [&str; 1])> =
        CANARIES.iter().enumerate().map(|(n, &canary)| (format!("n{n}.example.com"), [canary])).collect();
    let answers: Vec<[&[&str]; 1]> = names.iter().map(|(_, canary)| [&canary[..]]).collect();
    let names: Vec<(&str, &[&[&str]])> =
        names.iter().zip(&answers).map(|((name, _), answer)| (name.as_str(), &answer[..])).collect();
    let hosts = || {
        let literals = CANARIES.iter().map(|&canary| (canary, canary));
        literals.chain(DISGUISES).chain(names.iter().map(|(name, answers)| (*name, answers[0][0])))
    };

    let guarded = client_with(ClientOptions::default(), &names);
    for (host, _) in hosts() {
        let outcome = post(&guarded, &url(host)).await;
        assert_failed(&outcome, OutcomeClass::AddressRefused, "address not allowed");
        assert_eq!(outcome.address, None);
    }
    assert_eq!(*reached.lock().unwrap(), BTreeSet::new());

    // The control: with every address allowed, the same requests do reach the canaries.
    let allow = vec!["0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()];
    let policy = AddressPolicy { allow, ..AddressPolicy::default() };
    let unguarded = client_with(ClientOptions { policy, ..ClientOptions::default() }, &names);
    for (host, canary) in hosts() {
        reached.lock().unwrap().clear();
        assert_eq!(post(&unguarded, &url(host)).await.status, Some(200), "{host}");
        assert_eq!(*reached.lock().unwrap(), BTreeSet::from([canary.parse().unwrap()]), "{host}");
    }

    a_missing_route_is_a_local_failure(&guarded).await;
}

async fn a_missing_route_is_a_local_failure(guarded: &HttpClient) {
    for public in ["http://8.8.8.8/", "https://[2606:4700::1111]/"] {
        assert_failed(&post(guarded, public).await, OutcomeClass::Local, "no route");
    }
    let name = ScriptedResolver::new(&[("hooks.example.com", &[&["8.8.8.8", "2606:4700::1111"]])]);
    let outcome =
        post(&HttpClient::new(ClientOptions::default(), name).unwrap(), "http://hooks.example.com/").await;
    assert_failed(&outcome, OutcomeClass::Local, "no route");
    let system = HttpClient::new(ClientOptions::default(), Arc::new(SystemResolver::default())).unwrap();
    let outcome = post_within(&system, "http://hooks.example.com/", 10_000).await;
    assert_failed(&outcome, OutcomeClass::Local, "resolver does not answer");
}
