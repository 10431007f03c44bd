//! Formats of values: each has a text that describes it and a function that parses it.
//!
//! File, variables and flags all arrive here as text, so a value means the same wherever it was given.

mod mail_formats;
mod store_format;

pub(super) use mail_formats::{
    APP_ID, EMAIL_ADDRESS, MAIL_FROM, MAILS_PER_MINUTE, PUBLIC_URL, SMTP_PASSWORD, SMTP_SECURITY,
    SMTP_SERVER, SMTP_TIMEOUT, SMTP_USER,
};
pub use mail_formats::{SmtpSecurity, SmtpServer};
pub(super) use store_format::STORE;
pub use store_format::StoreLocation;

use super::secret::HiddenText;
use ipnet::IpNet;
use model::{
    contract::RetentionPeriod,
    encryption::Keyring,
    proxy::{PROXY_FORM, Proxy},
    rate_limit, static_headers,
    target_url::TargetUrl,
    time::parse_duration,
};
use std::{
    net::{IpAddr, SocketAddr},
    ops::RangeInclusive,
    path::PathBuf,
    time::Duration,
};

pub(super) struct ValueFormat<T> {
    /// Completes "give …".
    pub allowed: &'static str,
    pub read: fn(&str) -> Option<T>,
    /// Explains why a value cannot be parsed, if that can be said. Shows no part of it that must stay hidden.
    pub explain: fn(&str) -> Option<String>,
    pub is_hidden: bool,
    pub is_list: bool,
}

impl<T> ValueFormat<T> {
    const fn new(allowed: &'static str, read: fn(&str) -> Option<T>) -> Self {
        Self { allowed, read, explain: |_| None, is_hidden: false, is_list: false }
    }

    const fn with_explanation(self, why: fn(&str) -> Option<String>) -> Self {
        Self { explain: why, ..self }
    }

    const fn hidden(self) -> Self {
        Self { is_hidden: true, ..self }
    }

    const fn list(self) -> Self {
        Self { is_list: true, ..self }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Auto,
    Human,
    Json,
}

/// How events whose type is not in the catalogue are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownEventTypes {
    Allowed,
    Refused,
}

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
const GIB: usize = 1024 * MIB;

pub(super) const ADDRESS: ValueFormat<SocketAddr> =
    ValueFormat::new("an address with a port, for example 127.0.0.1:8080 or [::]:8080", |text| {
        text.parse().ok()
    });

pub(super) const ADMIN_KEY: ValueFormat<Option<HiddenText>> =
    ValueFormat::new("1 to 256 visible ASCII characters without spaces", |text| {
        optional(text, |text| {
            let fits = text.len() <= 256 && text.bytes().all(|byte| byte.is_ascii_graphic());
            fits.then(|| HiddenText::new(text))
        })
    })
    .hidden();

pub(super) const ENCRYPTION_KEY: ValueFormat<Option<HiddenText>> = ValueFormat::new(
    "32 bytes in base64, optionally after an id and a colon; several, with different ids, separated by commas",
    |text| optional(text, |text| Keyring::parse(text).ok().map(|_| HiddenText::new(text))),
)
.hidden();

pub(super) const NETWORKS: ValueFormat<Vec<IpNet>> =
    ValueFormat::new("addresses or networks separated by commas, for example 10.1.0.0/16,::1/128", |text| {
        text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(network).collect()
    })
    .list();

pub(super) const PROXY: ValueFormat<Option<Proxy>> =
    ValueFormat::new(PROXY_FORM, |text| optional(text, Proxy::parse)).hidden();

pub(super) const HEADERS: ValueFormat<Vec<(String, String)>> = ValueFormat::new(
    "Name: value, several separated by commas (in the file also an array); names that requests, signatures or proxies \
     need, and commas in values, are not allowed",
    parse_headers,
)
.list();

pub(super) const BOOLEAN: ValueFormat<bool> = ValueFormat::new("true or false", |text| text.parse().ok());

pub(super) const PATH: ValueFormat<Option<PathBuf>> =
    ValueFormat::new("a path", |text| optional(text, |text| Some(PathBuf::from(text))));

pub(super) const BODY_BYTES: ValueFormat<usize> =
    ValueFormat::new("a size from 1KiB to 64MiB, for example 1MiB", |text| size(text, KIB..=64 * MIB));

pub(super) const QUEUED_BYTES: ValueFormat<usize> =
    ValueFormat::new("a size from 1MiB to 64GiB, for example 64MiB", |text| size(text, MIB..=64 * GIB));

pub(super) const STORE_BYTES: ValueFormat<Option<usize>> =
    ValueFormat::new("a size of at least 1MiB, for example 10GiB", |text| {
        optional(text, |text| size(text, MIB..=usize::MAX))
    });

pub(super) const FREE_BYTES: ValueFormat<usize> =
    ValueFormat::new("a size, for example 256MiB; 0 for no limit", |text| size(text, 0..=usize::MAX));

pub(super) const RETENTION: ValueFormat<RetentionPeriod> = ValueFormat::new(
    "forever, or a whole number followed by h or d, from 1h to 3650d, for example 365d",
    |text| match text {
        "forever" => Some(RetentionPeriod::Forever),
        _ => parse_duration(text).filter(|kept| *kept >= Duration::from_hours(1)).map(RetentionPeriod::For),
    },
);

pub(super) const DELIVERIES_IN_FLIGHT: ValueFormat<usize> =
    ValueFormat::new("a whole number from 1 to 65536", |text| count(text, 1..=65_536));

pub(super) const IN_FLIGHT_PER_ENDPOINT: ValueFormat<usize> =
    ValueFormat::new("a whole number from 1 to 4096", |text| count(text, 1..=4_096));

pub(super) const IN_FLIGHT_LIMIT: ValueFormat<Option<usize>> =
    ValueFormat::new("a whole number up to 65536; 0 for no limit", |text| limit(text, 65_536));

pub(super) const RATE_LIMIT: ValueFormat<Option<u32>> =
    ValueFormat::new("a whole number up to 100000; 0 for no limit", |text| {
        limit(text, rate_limit::PER_SECOND_MAX as usize).map(|rate| rate.map(|rate| rate as u32))
    });

pub(super) const ACCEPT_QUEUE: ValueFormat<usize> =
    ValueFormat::new("a whole number from 1 to 1000000", |text| count(text, 1..=1_000_000));

pub(super) const COMMIT_WINDOW: ValueFormat<Duration> =
    ValueFormat::new("a whole number followed by us or ms, at most 100ms; 0ms commits at once", |text| {
        let (number, unit_us) = match text.strip_suffix("us") {
            Some(number) => (number, 1),
            None => (text.strip_suffix("ms")?, 1_000),
        };
        count(number, 0..=100_000 / unit_us).map(|units| Duration::from_micros((units * unit_us) as u64))
    });

pub(super) const ORIGINS: ValueFormat<Vec<String>> = ValueFormat::new(
    "origins separated by commas, each http or https with a host and nothing after it, for example https://shop.example.com",
    |text| text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(origin).collect(),
)
.list();

pub(super) const SHUTDOWN_GRACE: ValueFormat<Duration> =
    ValueFormat::new("a whole number followed by ms, s or m, from 10ms to 60m, for example 25s", |text| {
        parse_duration(text).filter(|grace| *grace <= Duration::from_hours(1))
    });

pub(super) const WORKERS: ValueFormat<usize> =
    ValueFormat::new("a whole number from 1 to 1024, or cores for one thread a core", |text| match text {
        "cores" => Some(std::thread::available_parallelism().map_or(1, usize::from)),
        _ => count(text, 1..=1_024),
    });

pub(super) const LOG_FORMAT: ValueFormat<LogFormat> =
    ValueFormat::new("auto, human or json", |text| match text {
        "auto" => Some(LogFormat::Auto),
        "human" => Some(LogFormat::Human),
        "json" => Some(LogFormat::Json),
        _ => None,
    });

pub(super) const UNKNOWN_EVENT_TYPES: ValueFormat<UnknownEventTypes> =
    ValueFormat::new("allowed or refused", |text| match text {
        "allowed" => Some(UnknownEventTypes::Allowed),
        "refused" => Some(UnknownEventTypes::Refused),
        _ => None,
    });

pub(super) const LOG_LEVEL: ValueFormat<String> = ValueFormat::new(
    "off, error, warn, info, debug or trace, and PART=LEVEL separated by commas, \
     for example info,posthaste::engine=debug",
    |text| text.split(',').all(is_directive).then(|| text.to_owned()),
);

/// An empty text means that the setting is not set.
#[expect(clippy::option_option, reason = "not allowed, not set, or set")]
fn optional<T>(text: &str, read: fn(&str) -> Option<T>) -> Option<Option<T>> {
    if text.is_empty() { Some(None) } else { read(text).map(Some) }
}

fn network(text: &str) -> Option<IpNet> {
    let net = text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))?;
    Some(net.trunc())
}

fn parse_headers(text: &str) -> Option<Vec<(String, String)>> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let headers: Vec<(String, String)> = parts
        .map(|part| part.split_once(':').map(|(name, value)| (name.to_lowercase(), value.trim().to_owned())))
        .collect::<Option<_>>()?;
    let is_new = |at: usize| headers[..at].iter().all(|(name, _)| *name != headers[at].0);
    let mut numbered = headers.iter().enumerate();
    numbered
        .all(|(at, (name, value))| static_headers::check(name, value).is_ok() && is_new(at))
        .then_some(headers)
}

/// Parses a limit; 0 means no limit.
#[expect(clippy::option_option, reason = "whether it can be read, and whether there is a limit")]
fn limit(text: &str, most: usize) -> Option<Option<usize>> {
    count(text, 0..=most).map(|most| Some(most).filter(|most| *most > 0))
}

/// Parses an origin. It is sent in a header, so it may hold no character that has a meaning there.
fn origin(text: &str) -> Option<String> {
    let target = TargetUrl::from_stored(text).ok()?;
    (target.path_and_query() == "/").then(|| target.as_str().trim_end_matches('/').to_owned())
}

fn count(text: &str, range: RangeInclusive<usize>) -> Option<usize> {
    let digits_only = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits_only.then(|| text.parse().ok())?.filter(|number| range.contains(number))
}

fn size(text: &str, range: RangeInclusive<usize>) -> Option<usize> {
    let units = [("KiB", KIB), ("MiB", MIB), ("GiB", GIB), ("B", 1), ("", 1)];
    let (number, unit) =
        units.into_iter().find_map(|(suffix, unit)| Some((text.strip_suffix(suffix)?, unit)))?;
    let bytes = count(number, 0..=usize::MAX)?.checked_mul(unit)?;
    range.contains(&bytes).then_some(bytes)
}

/// A bare word that is no level would silently select a part of the program by that name, so it is refused.
fn is_directive(text: &str) -> bool {
    let is_level = |level| matches!(level, "off" | "error" | "warn" | "info" | "debug" | "trace");
    match text.split_once('=') {
        None => is_level(text),
        Some((part, level)) => {
            let is_path = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':');
            is_level(level) && !part.is_empty() && part.bytes().all(is_path)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_units_and_bounds() {
        assert_eq!((BODY_BYTES.read)("1MiB"), Some(1_048_576));
        assert_eq!((BODY_BYTES.read)("2048"), Some(2_048));
        assert_eq!((BODY_BYTES.read)("2048B"), Some(2_048));
        assert_eq!((QUEUED_BYTES.read)("1GiB"), Some(1_073_741_824));
        for bad in
            ["", "MiB", "1MB", "1 MiB", "-1MiB", "+2048", "1.5MiB", "1023", "65MiB", "99999999999999GiB"]
        {
            assert_eq!((BODY_BYTES.read)(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_commit_window_may_be_zero_or_microseconds_and_at_most_100_ms() {
        assert_eq!((COMMIT_WINDOW.read)("0ms"), Some(Duration::ZERO));
        assert_eq!((COMMIT_WINDOW.read)("250us"), Some(Duration::from_micros(250)));
        assert_eq!((COMMIT_WINDOW.read)("100ms"), Some(Duration::from_millis(100)));
        for bad in ["", "1", "ms", "1s", "101ms", "100001us", "-1ms"] {
            assert_eq!((COMMIT_WINDOW.read)(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn networks_may_be_single_addresses_and_lose_their_host_bits() {
        let nets = (NETWORKS.read)(" 10.1.2.3/8, ::1 ,").unwrap();
        assert_eq!(nets, ["10.0.0.0/8".parse::<IpNet>().unwrap(), "::1/128".parse().unwrap()]);
        assert_eq!((NETWORKS.read)(""), Some(vec![]));
        assert_eq!((NETWORKS.read)("localhost"), None);
        assert_eq!((NETWORKS.read)("10.0.0.0/33"), None);
    }

    #[test]
    fn source_headers_are_checked_like_those_of_endpoints() {
        let read = (HEADERS.read)("X-Source: eu-1, x-env:prod,").unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(read, [pair("x-source", "eu-1"), pair("x-env", "prod")]);
        assert_eq!((HEADERS.read)(""), Some(vec![]));
        for bad in [
            "x",
            "x-a: 1, x-b",
            "host: a",
            "webhook-id: 1",
            "x-signature: 1",
            "x-a: 1, X-A: 2",
            "x a: 1",
            "x: ü",
        ] {
            assert_eq!((HEADERS.read)(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_mistyped_log_level_is_not_taken_for_a_part_of_the_program() {
        for good in ["info", "off", "warn,posthaste::engine=trace", "hyper=debug"] {
            assert!((LOG_LEVEL.read)(good).is_some(), "{good:?}");
        }
        for bad in ["", "infoo", "INFO", "info,", "posthaste=loud", "=info", "a b=info"] {
            assert_eq!((LOG_LEVEL.read)(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn an_origin_is_a_scheme_a_host_and_no_more() {
        let read = (ORIGINS.read)("https://Shop.example.com, http://localhost:3000/,").unwrap();
        assert_eq!(read, ["https://shop.example.com", "http://localhost:3000"]);
        assert_eq!((ORIGINS.read)(""), Some(vec![]));
        for bad in [
            "*",
            "https://*.example.com",
            "https://a.b/c",
            "https://a.b;script-src *",
            "'self'",
            "a.b",
            "https://a.b?x",
        ] {
            assert_eq!((ORIGINS.read)(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn an_unusable_encryption_key_is_refused_at_the_start() {
        let (a, b) = ("A".repeat(43), "B".repeat(42) + "A");
        for good in [format!("{a}="), format!("{a}, {b}"), format!("2026-11:{a},old:{b}")] {
            assert_eq!((ENCRYPTION_KEY.read)(&good), Some(Some(HiddenText::new(&good))));
        }
        for bad in [format!("k:{a},k:{b}"), format!("{a},"), "AAAA".to_owned(), "not base64!".to_owned()] {
            assert_eq!((ENCRYPTION_KEY.read)(&bad), None, "{bad:?}");
        }
        assert_eq!((ENCRYPTION_KEY.read)(""), Some(None));
    }
}
