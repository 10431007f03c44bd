//! `posthaste listen`: a receiver on a port of this machine. Verifies requests, shows them and answers as configured,
//! until it is stopped or has received enough. With a server's key it creates an endpoint for itself and deletes it at
//! the end.

mod render_request;
mod status_rules;
mod temporary_endpoint;

use super::{
    failed, on_runtime,
    server_flags::ServerFlags,
    verify::{RequestVerifier, VerifyFlags, VerifyResult},
};
use crate::{
    config::load_client,
    domain::{
        time::{DURATION_FORM, parse_duration},
        verification::IncomingRequest,
    },
    runtime::{Clock, Shutdown, ShutdownHandle, SystemClock},
    server::{self, ServerLimits},
};
use anyhow::Context;
use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use clap::{Args, builder::NonEmptyStringValueParser};
use status_rules::{StatusRule, StatusRules};
use std::{
    io::Write,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use temporary_endpoint::TemporaryEndpoint;
use tokio::net::TcpListener;

const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;
const CONNECTIONS_MAX: usize = 256;
/// Time that requests have to be answered after the end.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

const EXAMPLES: &str = "\
Examples:
  posthaste listen --secret-file secret.txt
  posthaste listen --app shop --events 'order.*'      with an endpoint of its own, deleted at the end
  posthaste listen --status 500,500,200               fail twice, then answer 200
  posthaste listen --status 200 --status /slow=503 --delay 2s
  posthaste listen --json --count 3 | jq .body

It listens on this machine alone, unless --address says otherwise; the server must be allowed to call it
(`posthaste dev`, or the settings allow_addresses and https_only). Without --status it answers 200, and 401 to what
cannot be verified.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ListenArgs {
    /// The port to listen on; 0 takes any free one
    #[arg(long, value_name = "PORT", default_value_t = 9000)]
    port: u16,
    /// The address to listen on
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    address: IpAddr,
    #[command(flatten)]
    verifier: VerifyFlags,
    /// The status to answer with; a list is gone through, then its last one stays; /path=… is for one path
    #[arg(long, value_name = "[PATH=]STATUS,…", value_parser = StatusRule::parse)]
    status: Vec<StatusRule>,
    /// How long to wait before answering
    #[arg(long, value_name = "DURATION", value_parser = delay)]
    delay: Option<Duration>,
    /// The body to answer with
    #[arg(long, value_name = "TEXT", default_value = "")]
    body: String,
    /// Print a JSON object for each request, on a line of its own
    #[arg(long)]
    json: bool,
    /// End after so many requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Make an endpoint of this app that leads here, and delete it at the end
    #[arg(long, value_name = "APP", value_parser = NonEmptyStringValueParser::new())]
    app: Option<String>,
    /// The event types of that endpoint, separated by commas
    #[arg(long, value_name = "PATTERNS", requires = "app", value_delimiter = ',')]
    events: Vec<String>,
    #[command(flatten)]
    connection: ServerFlags,
}

fn delay(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| format!("give {DURATION_FORM}"))
}

/// The state shared by all requests.
struct ListenState {
    verifier: RequestVerifier,
    answers: StatusRules,
    delay: Option<Duration>,
    body: String,
    json: bool,
    count_max: Option<u64>,
    received: AtomicU64,
    verified: AtomicU64,
    answered: AtomicU64,
    stop: ShutdownHandle,
}

pub(super) fn run(args: ListenArgs) -> ExitCode {
    on_runtime(async {
        let (stop, stopping) = Shutdown::new();
        stop.follow_signals().context("cannot listen for signals")?;
        listen(args, stop, stopping).await
    })
}

async fn listen(args: ListenArgs, stop: ShutdownHandle, stopping: Shutdown) -> anyhow::Result<ExitCode> {
    let at = SocketAddr::new(args.address, args.port);
    let listener = TcpListener::bind(at).await.with_context(|| format!("cannot listen on {at}"))?;
    let address = listener.local_addr()?;
    let mut verifier = args.verifier.read()?;
    let temporary = match args.app {
        None => None,
        Some(app) => {
            let settings = load_client(args.connection.client_flags(None))?;
            let made =
                TemporaryEndpoint::make(&settings, &app, address, &args.events, &verifier.contract.name)
                    .await?;
            verifier.secrets.push(made.secret.clone());
            Some(made)
        }
    };
    let what =
        if verifier.secrets.is_empty() { "verifying nothing: no secret was given" } else { "verifying" };
    eprintln!("listening on http://{address}/ ({what}, contract {})", verifier.contract.name);
    let state = Arc::new(ListenState {
        verifier,
        answers: StatusRules::new(args.status),
        delay: args.delay,
        body: args.body,
        json: args.json,
        count_max: args.count,
        received: AtomicU64::new(0),
        verified: AtomicU64::new(0),
        answered: AtomicU64::new(0),
        stop,
    });
    let router = Router::new().fallback(receive).with_state(state.clone());
    let limits = ServerLimits { connections_max: CONNECTIONS_MAX, ..ServerLimits::default() };
    let patience = async {
        stopping.graceful().await;
        tokio::time::timeout(STOP_TIMEOUT, stopping.forced()).await.ok();
    };
    server::serve(vec![listener], router, limits, stopping.graceful(), patience).await;
    let (received, verified) =
        (state.received.load(Ordering::Relaxed), state.verified.load(Ordering::Relaxed));
    eprintln!("received: {received}, verified: {verified}");
    match temporary {
        None => Ok(ExitCode::SUCCESS),
        Some(made) => Ok(made.delete().await.map_or_else(|error| failed(&error), |()| ExitCode::SUCCESS)),
    }
}

async fn receive(State(state): State<Arc<ListenState>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, BODY_BYTES_MAX).await else {
        eprintln!("refused a body that broke off, or has more than {BODY_BYTES_MAX} bytes");
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let before = state.received.fetch_add(1, Ordering::Relaxed);
    if state.count_max.is_some_and(|most| before >= most) {
        // Enough have come; earlier ones are still being answered.
        state.received.fetch_sub(1, Ordering::Relaxed);
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let headers: Vec<_> =
        parts.headers.iter().map(|(name, value)| (name.to_string(), text(value.as_bytes()))).collect();
    let now = SystemClock.now();
    let received = IncomingRequest { headers: &headers, body: &body };
    let finding = (!state.verifier.secrets.is_empty()).then(|| state.verifier.verify(&received, now));
    let is_genuine = finding.as_ref().is_none_or(|finding| finding.verified.is_ok());
    state.verified.fetch_add(u64::from(finding.is_some() && is_genuine), Ordering::Relaxed);
    let usual = if is_genuine { StatusCode::OK } else { StatusCode::UNAUTHORIZED };
    let status = state.answers.next(parts.uri.path()).unwrap_or(usual);
    let shown =
        render_request::RequestView { at: now, method: &parts.method, uri: &parts.uri, received, status };
    let text = if state.json {
        shown.json_line(finding.as_ref())
    } else {
        shown.text(&state.verifier, finding.as_ref())
    };
    // A closed terminal is no reason to fail.
    let _ = std::io::stdout().write_all(text.as_bytes());
    if let Some(delay) = state.delay {
        tokio::time::sleep(delay).await;
    }
    let answered = state.answered.fetch_add(1, Ordering::Relaxed) + 1;
    if state.count_max == Some(answered) {
        state.stop.stop_gracefully();
    }
    (status, Body::from(state.body.clone())).into_response()
}

/// The result of verifying, if there was a secret to verify with.
type VerifyOutcome<'a> = Option<&'a VerifyResult>;
