//! Checks of the machine: a free port, a right clock, names that resolve, enough file handles and memory.

use super::Line;
use crate::{
    app,
    config::Settings,
    domain::time::Timestamp,
    outbound::{Errand, Resolve, ResolveError, Runner, SystemResolver},
    runtime::{Clock, SystemClock},
};
use bytes::Bytes;
use http::{HeaderMap, Method, header};
use rustix::process::{Resource, getrlimit};
use std::{fs, io, net::TcpListener, path::Path, time::Duration};

const CLOCK: &str = "clock";
/// 2026-01-01: this program is not older, so an earlier clock is wrong.
const NOT_BEFORE: Timestamp = Timestamp::from_millis(1_767_225_600_000);
const BEHIND_MAX: Duration = Duration::from_mins(1);
/// Seconds. Receivers refuse signatures that are five minutes off.
const SKEW_BAD: u64 = 60;
const SKEW_ODD: u64 = 5;
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Memory besides bodies: the program itself, caches of the store, connections.
const MEMORY_BESIDE: u64 = 256 << 20;

pub(super) fn port(settings: &Settings, store_user: Option<u32>) -> Line {
    match (TcpListener::bind(settings.listen), store_user) {
        (Ok(_), _) => Line::ok("port", format!("{} is free", settings.listen)),
        (Err(error), Some(process)) if error.kind() == io::ErrorKind::AddrInUse => Line::ok(
            "port",
            format!("{} is taken, as process {process} runs with this store", settings.listen),
        ),
        (Err(error), _) => {
            let said = format!("cannot listen on {}: {error}", settings.listen);
            Line::failed("port", said, "Stop what listens there, or set listen to another address.")
        }
    }
}

pub(super) fn clock(newest_at: Option<Timestamp>) -> Vec<Line> {
    let now = SystemClock.now();
    let advice = "Set it right and keep it so (NTP): receivers refuse signatures whose time is minutes off.";
    if now < NOT_BEFORE {
        return vec![Line::failed(CLOCK, format!("it says {now}, which cannot be"), advice)];
    }
    let mut lines = Vec::new();
    match newest_at {
        Some(newest) if newest.since(now) > BEHIND_MAX => {
            let said = format!("it says {now}, and the newest event in the store is of {newest}");
            lines.push(Line::failed(CLOCK, said, advice));
        }
        _ => lines.push(Line::ok(CLOCK, format!("it says {now}"))),
    }
    if Path::new("/run/systemd/timesync/synchronized").exists() {
        lines.push(Line::ok(CLOCK, "systemd keeps it in step"));
    }
    lines
}

/// Compares this clock with that of a running server, by the date of its answer.
pub(super) async fn skew(server: &str) -> Line {
    let advice = "Look whether it runs, and whether the address is right.";
    match server_time(server).await {
        Err(error) => Line::warning(CLOCK, format!("{server}: {error:#}"), advice),
        Ok(theirs) => {
            let (now, theirs) = (SystemClock.now().as_seconds(), theirs.as_seconds());
            let (by, way) = (now.abs_diff(theirs), if theirs > now { "ahead" } else { "behind" });
            let said = format!("the server at {server} is {by} s {way}");
            let advice = "Keep both clocks in step (NTP).";
            match by {
                0..SKEW_ODD => Line::ok(CLOCK, format!("the server at {server} has the same time")),
                SKEW_ODD..SKEW_BAD => Line::warning(CLOCK, said, advice),
                SKEW_BAD.. => Line::failed(CLOCK, said, advice),
            }
        }
    }
}

async fn server_time(server: &str) -> anyhow::Result<Timestamp> {
    let runner = Runner::new()?;
    let target = runner.target(&format!("{}/livez", server.trim_end_matches('/')))?;
    let (headers, body) = (HeaderMap::new(), Bytes::new());
    let answer =
        runner.run(Errand { method: Method::GET, target, headers, body, timeout: ANSWER_WITHIN }).await?;
    let date = answer.headers().get(header::DATE).and_then(|date| date.to_str().ok());
    let date = date.ok_or_else(|| anyhow::anyhow!("its answer has no date"))?;
    let read = jiff::fmt::rfc2822::parse(date)?;
    Ok(Timestamp::from_millis(read.timestamp().as_millisecond()))
}

pub(super) async fn names(name: &str) -> Line {
    let found = SystemResolver::default().resolve(name).await;
    match found {
        Ok(addresses) => {
            let first = addresses.first().map(ToString::to_string).unwrap_or_default();
            Line::ok("names", format!("{name} is {first}"))
        }
        Err(error @ ResolveError::Unavailable) => Line::failed(
            "names",
            format!("{name}: {error}"),
            "Look at /etc/resolv.conf and the servers it names.",
        ),
        Err(error) => Line::failed(
            "names",
            format!("{name}: {error}"),
            "Look whether the name is right, and who answers for it.",
        ),
    }
}

pub(super) fn limits(settings: &Settings) -> Vec<Line> {
    let mut lines = Vec::new();
    let wanted = app::handles_wanted(settings.hands);
    let allowed = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    lines.push(if allowed < wanted {
        let said = format!("{allowed} files may be open, and {} hands want {wanted}", settings.hands);
        Line::warning("limits", said, "Raise the limit (LimitNOFILE=, ulimit -Hn), or set fewer hands.")
    } else {
        Line::ok("limits", format!("as many files may be open as {} hands want", settings.hands))
    });
    let wanted = settings.queued_bytes_max as u64 * 2 + MEMORY_BESIDE;
    let mib = |bytes: u64| bytes >> 20;
    if let Some(there) = memory() {
        lines.push(if there < wanted {
            let said =
                format!("{} MiB of memory are there, and the settings allow {} MiB", mib(there), mib(wanted));
            Line::warning("limits", said, "Set queued_bytes_max lower, or give it more memory.")
        } else {
            Line::ok(
                "limits",
                format!("{} MiB of memory are there, and the settings allow {} MiB", mib(there), mib(wanted)),
            )
        });
    }
    lines
}

/// Returns the memory that is free on the machine, or less where a control group has less.
fn memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let free = line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024;
    let group =
        fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
    Some(group.map_or(free, |most: u64| most.min(free)))
}
