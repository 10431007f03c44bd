//! Parses a receiver's `Retry-After`. Any text that is not exactly one of its forms is ignored.

use super::time::Timestamp;
use jiff::{civil::datetime as date_time, fmt::strtime};
use std::time::Duration;

/// The three forms of an HTTP date; the first is the one that is written today.
const DATE_FORMS: [&str; 3] =
    ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];

/// Returns how long after `now` the receiver asks to wait; zero for a date that has passed.
pub(super) fn parse(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim_matches([' ', '\t']);
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        // Numbers that do not fit saturate.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    date(text).map(|at| at.since(now))
}

fn date(text: &str) -> Option<Timestamp> {
    let read = |form: &&str| strtime::parse(form, text).and_then(|parts| parts.to_datetime()).ok();
    let civil = DATE_FORMS.iter().find_map(read)?;
    let since_epoch = civil.duration_since(date_time(1970, 1, 1, 0, 0, 0, 0));
    Some(Timestamp::from_millis(i64::try_from(since_epoch.as_millis()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn now() -> Timestamp {
        Timestamp::parse("2026-11-15T12:00:00Z").unwrap()
    }

    fn seconds_of(text: &str) -> Option<u64> {
        parse(text, now()).map(|wait| wait.as_secs())
    }

    #[test]
    fn seconds_and_every_form_of_an_http_date_are_read() {
        for (text, seconds) in [
            ("0", 0),
            ("120", 120),
            (" 7 ", 7),
            ("007", 7),
            ("1000000000000000000", 1_000_000_000_000_000_000),
            ("99999999999999999999999999", u64::MAX),
            ("Sun, 15 Nov 2026 12:02:00 GMT", 120),
            ("Sunday, 15-Nov-26 12:02:00 GMT", 120),
            ("Sun Nov 15 12:02:00 2026", 120),
            ("Sun, 15 Nov 2026 11:00:00 GMT", 0),
            ("Sun, 06 Nov 1994 08:49:37 GMT", 0),
        ] {
            assert_eq!(seconds_of(text), Some(seconds), "{text}");
        }
    }

    #[test]
    fn junk_is_ignored() {
        for junk in [
            "",
            " ",
            "-1",
            "+5",
            "1.5",
            "1e18",
            "NaN",
            "inf",
            "0x10",
            "five",
            "5s",
            "5, 6",
            "1 2",
            "٣",
            "Sun, 32 Nov 2026 12:00:00 GMT",
            "Sun, 15 Nov 2026 25:00:00 GMT",
            "Sun, 15 Nov 2026 12:00:00",
            "Sun, 15 Nov 2026 12:00:00 PST",
            "2026-11-15T12:02:00Z",
            "Nov 15",
            "%a, %d",
            "\0",
            "GMT",
        ] {
            assert_eq!(seconds_of(junk), None, "{junk:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,64}", date in "[A-Za-z]{3}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9:]{8} GMT") {
            let _ = (parse(&text, now()), parse(&date, now()));
        }
    }
}
