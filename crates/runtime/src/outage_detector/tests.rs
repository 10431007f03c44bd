//! Tests of the outage detector: what counts as a local outage, and which time the adjusted clock counts.

use super::*;
use proptest::prelude::*;

const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);
const GAP: Duration = Duration::from_hours(3);

fn host(number: usize) -> Host {
    Host::Name(format!("h{number}.example.com"))
}

fn after(seconds: u64) -> Timestamp {
    START.plus(Duration::from_secs(seconds))
}

/// The app of nearly all hosts here.
const APP: AppId = AppId::from_i64(1);

/// Records a request to each of these hosts; returns how many of them count.
fn all(
    detector: &OutageDetector,
    hosts: std::ops::Range<usize>,
    class: OutcomeClass,
    at: Timestamp,
) -> usize {
    hosts.filter(|number| record(detector, APP, *number, class, at)).count()
}

/// Records a request to each of these hosts, each of another app; returns how many of them count.
fn one_of_each_app(
    detector: &OutageDetector,
    hosts: std::ops::Range<usize>,
    class: OutcomeClass,
    at: Timestamp,
) -> usize {
    hosts.filter(|number| record(detector, AppId::from_i64(100 + *number as i64), *number, class, at)).count()
}

fn record(detector: &OutageDetector, app: AppId, number: usize, class: OutcomeClass, at: Timestamp) -> bool {
    detector.record(app, &host(number), &Outcome::failed(class, ""), at)
}

fn started() -> OutageDetector {
    let detector = OutageDetector::default();
    detector.start(Duration::ZERO, GAP, START);
    detector
}

#[test]
fn a_local_outage_begins_when_most_hosts_fall_silent_and_ends_with_an_answer() {
    let detector = started();
    assert_eq!(all(&detector, 0..9, OutcomeClass::Http, START), 9);
    assert_eq!(
        all(&detector, 0..9, OutcomeClass::Timeout, after(10)),
        4,
        "the fifth of nine starts the outage"
    );
    assert!(detector.is_local_outage());
    // Days later, with a request now and then: still a local outage.
    for day in 1..4 {
        assert_eq!(all(&detector, 0..2, OutcomeClass::Connect, after(day * 86_400)), 0, "day {day}");
        assert_eq!(
            all(&detector, 9..10, OutcomeClass::Dns, after(day * 86_400)),
            0,
            "a new host does not count either"
        );
    }
    assert_eq!(
        all(&detector, 0..1, OutcomeClass::Http, after(4 * 86_400)),
        1,
        "an error status is an answer too"
    );
    assert!(!detector.is_local_outage());
    assert_eq!(all(&detector, 5..6, OutcomeClass::Connect, after(4 * 86_400)), 1);
}

#[test]
fn with_few_requests_a_long_silence_of_all_hosts_is_a_local_outage() {
    let detector = started();
    all(&detector, 0..9, OutcomeClass::Http, START);
    for minute in 1..=8 {
        assert_eq!(
            all(&detector, minute - 1..minute, OutcomeClass::Timeout, after(minute as u64 * 120)),
            usize::from(minute < 5)
        );
    }
    assert!(detector.is_local_outage());
    assert_eq!(all(&detector, 8..9, OutcomeClass::Ok, after(1200)), 1);
    assert_eq!(all(&detector, 7..8, OutcomeClass::Ok, after(1201)), 1);
    assert!(!detector.is_local_outage());
}

#[test]
fn a_few_silent_hosts_of_many_are_no_local_outage() {
    let detector = started();
    all(&detector, 0..10, OutcomeClass::Http, START);
    assert_eq!(all(&detector, 0..5, OutcomeClass::Timeout, after(1)), 5, "half is not most");
    let few = started();
    all(&few, 0..4, OutcomeClass::Http, START);
    assert_eq!(all(&few, 0..4, OutcomeClass::Timeout, after(1)), 4, "four hosts prove nothing");
    let never = started();
    assert_eq!(all(&never, 0..50, OutcomeClass::Timeout, START), 50, "none of them ever answered");
    let slow = started();
    for minute in 0..20 {
        all(&slow, 0..9, OutcomeClass::Http, after(minute * 600));
        let number = minute as usize % 9;
        assert_eq!(all(&slow, number..number + 1, OutcomeClass::Tls, after(minute * 600 + 300)), 1);
    }
}

#[test]
fn hosts_that_stay_silent_while_others_answer_count_as_failing_after_hours() {
    let detector = started();
    all(&detector, 0..9, OutcomeClass::Http, START);
    all(&detector, 0..6, OutcomeClass::Connect, after(5));
    assert_eq!(all(&detector, 6..9, OutcomeClass::Ok, after(3600)), 3);
    assert_eq!(all(&detector, 0..6, OutcomeClass::Connect, after(3601)), 0);
    all(&detector, 6..9, OutcomeClass::Ok, after(7 * 3600));
    assert_eq!(all(&detector, 0..6, OutcomeClass::Connect, after(7 * 3600 + 1)), 6);
}

#[test]
fn silent_hosts_of_one_app_are_no_outage_and_those_of_most_apps_are() {
    let theirs = started();
    all(&theirs, 0..20, OutcomeClass::Http, START);
    one_of_each_app(&theirs, 20..24, OutcomeClass::Http, START);
    assert_eq!(all(&theirs, 0..20, OutcomeClass::Connect, after(5)), 20, "they may be one server");
    assert_eq!(one_of_each_app(&theirs, 20..21, OutcomeClass::Connect, after(6)), 1, "two of five apps");
    assert!(!theirs.is_local_outage());
    let ours = started();
    all(&ours, 0..20, OutcomeClass::Http, START);
    one_of_each_app(&ours, 20..24, OutcomeClass::Http, START);
    all(&ours, 0..20, OutcomeClass::Connect, after(5));
    assert_eq!(
        one_of_each_app(&ours, 20..24, OutcomeClass::Connect, after(6)),
        1,
        "the third app of five starts the outage"
    );
    assert!(ours.is_local_outage());
}

#[test]
fn one_app_proves_an_outage_only_if_no_other_sends_or_its_hosts_have_many_names() {
    let busy = started();
    one_of_each_app(&busy, 20..24, OutcomeClass::Http, START);
    all(&busy, 0..20, OutcomeClass::Http, after(3600));
    assert_eq!(
        all(&busy, 0..20, OutcomeClass::Connect, after(3700)),
        20,
        "no other app was tried for an hour"
    );
    assert_eq!(all(&busy, 0..20, OutcomeClass::Connect, after(3700 + 1200)), 20, "no host answers for long");
    let spread = started();
    one_of_each_app(&spread, 20..24, OutcomeClass::Http, START);
    let elsewhere = |number: usize| Host::Name(format!("hooks.shop{number}.example"));
    let tell = |number, class, at| spread.record(APP, &elsewhere(number), &Outcome::failed(class, ""), at);
    (0..20).for_each(|number| assert!(tell(number, OutcomeClass::Http, after(3600))));
    let blamed = (0..20).filter(|number| tell(*number, OutcomeClass::Connect, after(3700))).count();
    assert_eq!(blamed, 4, "the fifth starts the outage: this many names are not one server");
    let alone = started();
    one_of_each_app(&alone, 20..24, OutcomeClass::Http, START);
    all(&alone, 0..20, OutcomeClass::Http, after(2 * 86_400));
    assert_eq!(
        all(&alone, 0..20, OutcomeClass::Connect, after(2 * 86_400 + 10)),
        10,
        "the others are gone for a day"
    );
}

#[test]
fn hosts_shared_by_several_apps_belong_to_no_app() {
    let detector = started();
    for app in [1, 2] {
        for number in 0..8 {
            record(&detector, AppId::from_i64(app), number, OutcomeClass::Http, START);
        }
    }
    all(&detector, 8..9, OutcomeClass::Http, START);
    one_of_each_app(&detector, 9..10, OutcomeClass::Http, START);
    assert_eq!(all(&detector, 0..8, OutcomeClass::Timeout, after(5)), 8, "one of three");
    assert!(!record(&detector, APP, 8, OutcomeClass::Timeout, after(6)), "two of three");
}

#[test]
fn restored_hosts_count_as_having_answered() {
    let detector = started();
    (0..5).for_each(|number| detector.restore_answered_host(APP, &host(number), START));
    assert_eq!(all(&detector, 0..5, OutcomeClass::Dns, after(20)), 2);
}

#[test]
fn local_failures_and_stale_connections_never_count() {
    let detector = started();
    for class in [OutcomeClass::Local, OutcomeClass::StaleConnection, OutcomeClass::Unknown] {
        assert_eq!(all(&detector, 0..3, class, START), 0, "{class:?}");
    }
    assert_eq!(all(&detector, 0..3, OutcomeClass::AddressRefused, START), 3);
}

#[test]
fn the_adjusted_clock_stands_still_during_local_outages() {
    let detector = OutageDetector::default();
    assert_eq!(detector.adjusted_time(after(100)), Duration::ZERO, "no process runs");
    detector.start(Duration::from_secs(7), GAP, START);
    assert_eq!(detector.adjusted_time(after(10)), Duration::from_secs(17));
    all(&detector, 0..2, OutcomeClass::Connect, after(15));
    all(&detector, 0..1, OutcomeClass::Local, after(15));
    assert!(!detector.is_local_outage(), "one host may be unreachable from this machine only");
    all(&detector, 0..2, OutcomeClass::Local, after(20));
    assert_eq!(detector.adjusted_time(after(100)), Duration::from_secs(27), "nothing can be dialled");
    all(&detector, 0..1, OutcomeClass::Connect, after(100));
    assert_eq!(detector.adjusted_time(after(101)), Duration::from_secs(28));
    all(&detector, 0..9, OutcomeClass::Http, after(101));
    all(&detector, 0..9, OutcomeClass::Timeout, after(101));
    assert_eq!(detector.adjusted_time(after(4000)), Duration::from_secs(28));
    all(&detector, 0..9, OutcomeClass::Http, after(4000));
    let leap = after(4000).plus(GAP * 20);
    assert_eq!(detector.adjusted_time(leap), Duration::from_secs(28) + GAP, "the machine slept");
    assert_eq!(detector.adjusted_time(after(4001)), Duration::from_secs(28) + GAP, "the clock was set back");
}

#[test]
fn nodes_share_the_furthest_adjusted_clock_and_reports_of_outages() {
    let report = |seconds, is_local_outage| OutageReport {
        adjusted_time: Duration::from_secs(seconds),
        is_local_outage,
    };
    let quiet = started();
    quiet.apply_report(report(500, false), after(10));
    assert_eq!(quiet.report(after(20)), report(510, false));
    quiet.apply_report(report(400, false), after(20));
    assert_eq!(quiet.adjusted_time(after(30)), Duration::from_secs(520), "it is ahead of them");
    quiet.apply_report(report(520, true), after(30));
    all(&quiet, 0..1, OutcomeClass::Connect, after(40));
    assert_eq!(quiet.adjusted_time(after(100)), Duration::from_secs(520), "another node reports an outage");
    quiet.apply_report(report(560, true), after(100));
    assert_eq!(quiet.adjusted_time(after(110)), Duration::from_secs(560), "and a third gets answers");
    all(&quiet, 1..2, OutcomeClass::Http, after(120));
    quiet.apply_report(report(560, true), after(130));
    assert_eq!(quiet.adjusted_time(after(140)), Duration::from_secs(580), "so does this one");
    quiet.apply_report(report(580, true), after(140));
    assert_eq!(quiet.adjusted_time(after(150)), Duration::from_secs(580), "but no more");
    quiet.apply_report(report(580, false), after(150));
    assert_eq!(quiet.adjusted_time(after(160)), Duration::from_secs(590));
    let ours = started();
    all(&ours, 0..9, OutcomeClass::Http, START);
    all(&ours, 0..9, OutcomeClass::Timeout, after(10));
    assert_eq!(ours.report(after(20)), report(10, true));
}

proptest! {
    #[test]
    fn adjusted_time_never_runs_back_nor_faster_than_the_clock(
        steps in prop::collection::vec((0_u64..10_000, 0_usize..8, 0_usize..6), 1..200),
    ) {
        const CLASSES: [OutcomeClass; 6] =
            [OutcomeClass::Ok, OutcomeClass::Http, OutcomeClass::Timeout, OutcomeClass::Connect, OutcomeClass::Local, OutcomeClass::StaleConnection];
        let detector = started();
        let (mut now, mut last) = (START, Duration::ZERO);
        for (seconds, number, class) in steps {
            let then = now.plus(Duration::from_secs(seconds));
            all(&detector, number..number + 1, CLASSES[class], then);
            let adjusted_time = detector.adjusted_time(then);
            prop_assert!(adjusted_time >= last && adjusted_time <= last + then.since(now));
            (now, last) = (then, adjusted_time);
        }
    }
}
