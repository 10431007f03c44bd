//! Checks of the machine: a free port, a right clock, names that resolve, enough file handles and memory.

use super::CheckLine;
use crate::{
    app,
    config::Settings,
    domain::time::Timestamp,
    outbound::{CliClient, ClientRequest, ResolveError, Resolver, SystemResolver},
    runtime::{Clock, SystemClock},
};
use bytes::Bytes;
use http::{HeaderMap, Method, header};
use rustix::process::{Resource, getrlimit};
use std::{fs, io, net::TcpListener, path::Path, time::Duration};

const CLOCK_CHECK: &str = "clock";
/// 2026-01-01: this program is not older, so an earlier clock is wrong.
const CLOCK_MIN: Timestamp = Timestamp::from_millis(1_767_225_600_000);
const CLOCK_BEHIND_MAX: Duration = Duration::from_mins(1);
/// Seconds. Receivers refuse signatures that are five minutes off.
const SKEW_FAILED_SECONDS: u64 = 60;
const SKEW_WARNING_SECONDS: u64 = 5;
const SERVER_TIME_TIMEOUT: Duration = Duration::from_secs(5);
/// Memory besides bodies: the program itself, caches of the store, connections.
const BASE_MEMORY_BYTES: u64 = 256 << 20;

pub(super) fn check_port(settings: &Settings, store_user: Option<u32>) -> CheckLine {
    match (TcpListener::bind(settings.listen), store_user) {
        (Ok(_), _) => CheckLine::ok("port", format!("{} is free", settings.listen)),
        (Err(error), Some(process)) if error.kind() == io::ErrorKind::AddrInUse => CheckLine::ok(
            "port",
            format!("{} is taken, as process {process} runs with this store", settings.listen),
        ),
        (Err(error), _) => {
            let said = format!("cannot listen on {}: {error}", settings.listen);
            CheckLine::failed("port", said, "Stop what listens there, or set listen to another address.")
        }
    }
}

pub(super) fn check_clock(newest_at: Option<Timestamp>) -> Vec<CheckLine> {
    let now = SystemClock.now();
    let advice = "Set it right and keep it so (NTP): receivers refuse signatures whose time is minutes off.";
    if now < CLOCK_MIN {
        return vec![CheckLine::failed(CLOCK_CHECK, format!("it says {now}, which cannot be"), advice)];
    }
    let mut lines = Vec::new();
    match newest_at {
        Some(newest) if newest.since(now) > CLOCK_BEHIND_MAX => {
            let said = format!("it says {now}, and the newest event in the store is of {newest}");
            lines.push(CheckLine::failed(CLOCK_CHECK, said, advice));
        }
        _ => lines.push(CheckLine::ok(CLOCK_CHECK, format!("it says {now}"))),
    }
    if Path::new("/run/systemd/timesync/synchronized").exists() {
        lines.push(CheckLine::ok(CLOCK_CHECK, "systemd keeps it in step"));
    }
    lines
}

/// Compares this clock with that of a running server, by the date of its answer.
pub(super) async fn check_clock_skew(server: &str) -> CheckLine {
    let advice = "Look whether it runs, and whether the address is right.";
    match server_time(server).await {
        Err(error) => CheckLine::warning(CLOCK_CHECK, format!("{server}: {error:#}"), advice),
        Ok(theirs) => {
            let (now, theirs) = (SystemClock.now().as_seconds(), theirs.as_seconds());
            let (by, way) = (now.abs_diff(theirs), if theirs > now { "ahead" } else { "behind" });
            let said = format!("the server at {server} is {by} s {way}");
            let advice = "Keep both clocks in step (NTP).";
            match by {
                0..SKEW_WARNING_SECONDS => {
                    CheckLine::ok(CLOCK_CHECK, format!("the server at {server} has the same time"))
                }
                SKEW_WARNING_SECONDS..SKEW_FAILED_SECONDS => CheckLine::warning(CLOCK_CHECK, said, advice),
                SKEW_FAILED_SECONDS.. => CheckLine::failed(CLOCK_CHECK, said, advice),
            }
        }
    }
}

async fn server_time(server: &str) -> anyhow::Result<Timestamp> {
    let runner = CliClient::new()?;
    let target = runner.target(&format!("{}/livez", server.trim_end_matches('/')))?;
    let (headers, body) = (HeaderMap::new(), Bytes::new());
    let answer = runner
        .send(ClientRequest { method: Method::GET, target, headers, body, timeout: SERVER_TIME_TIMEOUT })
        .await?;
    let date = answer.headers().get(header::DATE).and_then(|date| date.to_str().ok());
    let date = date.ok_or_else(|| anyhow::anyhow!("its answer has no date"))?;
    let read = jiff::fmt::rfc2822::parse(date)?;
    Ok(Timestamp::from_millis(read.timestamp().as_millisecond()))
}

pub(super) async fn check_name(name: &str) -> CheckLine {
    let found = SystemResolver::default().resolve(name).await;
    match found {
        Ok(addresses) => {
            let first = addresses.first().map(ToString::to_string).unwrap_or_default();
            CheckLine::ok("names", format!("{name} is {first}"))
        }
        Err(error @ ResolveError::Unavailable) => CheckLine::failed(
            "names",
            format!("{name}: {error}"),
            "Look at /etc/resolv.conf and the servers it names.",
        ),
        Err(error) => CheckLine::failed(
            "names",
            format!("{name}: {error}"),
            "Look whether the name is right, and who answers for it.",
        ),
    }
}

pub(super) fn check_limits(settings: &Settings) -> Vec<CheckLine> {
    let mut lines = Vec::new();
    let wanted = app::file_handles_needed(settings.hands);
    let allowed = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    lines.push(if allowed < wanted {
        let said = format!("{allowed} files may be open, and {} hands want {wanted}", settings.hands);
        CheckLine::warning("limits", said, "Raise the limit (LimitNOFILE=, ulimit -Hn), or set fewer hands.")
    } else {
        CheckLine::ok("limits", format!("as many files may be open as {} hands want", settings.hands))
    });
    let wanted = settings.queued_bytes_max as u64 * 2 + BASE_MEMORY_BYTES;
    let mib = |bytes: u64| bytes >> 20;
    if let Some(there) = available_memory() {
        lines.push(if there < wanted {
            let said =
                format!("{} MiB of memory are there, and the settings allow {} MiB", mib(there), mib(wanted));
            CheckLine::warning("limits", said, "Set queued_bytes_max lower, or give it more memory.")
        } else {
            CheckLine::ok(
                "limits",
                format!("{} MiB of memory are there, and the settings allow {} MiB", mib(there), mib(wanted)),
            )
        });
    }
    lines
}

/// Returns the memory that is free on the machine, or less where a control group has less.
fn available_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let free = line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024;
    let group =
        fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
    Some(group.map_or(free, |most: u64| most.min(free)))
}
