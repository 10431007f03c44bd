//! Reads and writes the sections `states`, `health` and `notices`, and reads the list of event types.

use super::{DAY, DURATION_MIN, FieldResult, check_range};
use crate::{
    contract::{
        field_reader::{FieldValue, Section},
        notifications::{DeadLetterNotice, HealthRule, NoticeChannel, Notices, StateNames},
    },
    field_error::FieldError,
    subscription::check_event_type,
    time::format_duration,
};
use serde_json::{Value, json};
use std::time::Duration;

const DIGEST_WINDOW_DEFAULT: Duration = Duration::from_hours(1);

pub(super) fn read_event_types(root: &Section) -> FieldResult<Vec<String>> {
    let types: Vec<String> = root.list("event_types", 200, Some(Vec::new()))?;
    for (i, name) in types.iter().enumerate() {
        check_event_type(name)
            .map_err(|message| FieldError::new(root.at(&format!("event_types[{i}]")), message))?;
    }
    Ok(types)
}

pub(super) fn read_states(states: &Section) -> FieldResult<StateNames> {
    let given = |name: &str| {
        let text: Option<String> = states.optional(name)?;
        let allows = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        text.map(|text| check_characters(states, name, text, "A-Z a-z 0-9 _ -", allows)).transpose()
    };
    let named = |name: &str| Ok::<_, FieldError>(given(name)?.unwrap_or_else(|| name.to_owned()));
    Ok(StateNames {
        pending: named("pending")?,
        in_flight: named("in_flight")?,
        retrying: named("retrying")?,
        held: named("held")?,
        delivered: named("delivered")?,
        dead: named("dead")?,
        cancelled: named("cancelled")?,
        expired: named("expired")?,
        skipped: named("skipped")?,
        serialisation_failed: given("serialisation_failed")?,
        signing_failed: given("signing_failed")?,
    })
}

pub(super) fn write_states(states: &StateNames) -> Value {
    json!({
        "pending": states.pending,
        "in_flight": states.in_flight,
        "retrying": states.retrying,
        "held": states.held,
        "delivered": states.delivered,
        "dead": states.dead,
        "cancelled": states.cancelled,
        "expired": states.expired,
        "skipped": states.skipped,
        "serialisation_failed": states.serialisation_failed,
        "signing_failed": states.signing_failed,
    })
}

pub(super) fn read_health(health: &Section) -> FieldResult<HealthRule> {
    let bounded = |name, max| {
        let duration: Option<Duration> = health.optional(name)?;
        duration.map(|duration| check_range(health, name, duration, DURATION_MIN, max)).transpose()
    };
    let off_reason = health.or("off_reason", "failing".to_owned())?;
    let rule = HealthRule {
        off_after_failed_events: health.optional("off_after_failed_events")?,
        off_after_failing_for: bounded("off_after_failing_for", DAY * 365)?,
        warning_after: bounded("warning_after", DAY * 365)?,
        off_reason: check_characters(health, "off_reason", off_reason, "a-z 0-9 _", |b| {
            b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'
        })?,
        degraded_above: health.optional("degraded_above")?,
        degraded_window: bounded("degraded_window", DAY * 30)?,
    };
    if rule.off_after_failed_events.is_some_and(|events| !(1..=10_000).contains(&events)) {
        return Err(FieldError::new("health.off_after_failed_events", "must be from 1 to 10000"));
    }
    match (rule.warning_after, rule.off_after_failing_for) {
        (Some(_), None) => {
            let message = "needs `health.off_after_failing_for`: there is nothing to warn of";
            return Err(FieldError::new("health.warning_after", message));
        }
        (Some(warning), Some(off)) if warning >= off => {
            let message =
                format!("must be before `health.off_after_failing_for`, which is {}", format_duration(off));
            return Err(FieldError::new("health.warning_after", message));
        }
        _ => {}
    }
    if rule.degraded_above.is_some() != rule.degraded_window.is_some() {
        let message = "and `health.degraded_window` must be given both or neither";
        return Err(FieldError::new("health.degraded_above", message));
    }
    Ok(rule)
}

pub(super) fn write_health(health: &HealthRule) -> Value {
    json!({
        "off_after_failed_events": health.off_after_failed_events,
        "off_after_failing_for": health.off_after_failing_for.map(format_duration),
        "warning_after": health.warning_after.map(format_duration),
        "off_reason": health.off_reason,
        "degraded_above": health.degraded_above.map(|share| share.write()),
        "degraded_window": health.degraded_window.map(format_duration),
    })
}

pub(super) fn read_notices(notices: &Section, health: &HealthRule) -> FieldResult<Notices> {
    let window = notices.or("digest_window", DIGEST_WINDOW_DEFAULT)?;
    let read = Notices {
        dead_letter: notices.or("dead_letter", DeadLetterNotice::None)?,
        dead_letter_by: notices.or("dead_letter_by", NoticeChannel::List)?,
        digest_window: check_range(notices, "digest_window", window, DURATION_MIN, DAY)?,
        degraded: notices.or("degraded", NoticeChannel::List)?,
        off_warning: notices.or("off_warning", NoticeChannel::List)?,
        disabled: notices.or("switched_off", NoticeChannel::List)?,
        replay_finished: notices.or("replay_finished", NoticeChannel::List)?,
    };
    if read.dead_letter_by == NoticeChannel::None {
        let message = "must be \"email\" or \"list\"; `notices.dead_letter` says whether there are any";
        return Err(FieldError::new("notices.dead_letter_by", message));
    }
    if health.warning_after.is_some() && read.off_warning == NoticeChannel::None {
        let message = "must be \"email\" or \"list\" where there is `health.warning_after`";
        return Err(FieldError::new("notices.off_warning", message));
    }
    Ok(read)
}

pub(super) fn write_notices(notices: Notices) -> Value {
    json!({
        "dead_letter": notices.dead_letter.name(),
        "dead_letter_by": notices.dead_letter_by.name(),
        "digest_window": format_duration(notices.digest_window),
        "degraded": notices.degraded.name(),
        "off_warning": notices.off_warning.name(),
        "switched_off": notices.disabled.name(),
        "replay_finished": notices.replay_finished.name(),
    })
}

fn check_characters(
    section: &Section,
    name: &str,
    text: String,
    allowed: &str,
    allows: impl Fn(u8) -> bool,
) -> FieldResult<String> {
    if text.len() <= 64 && text.bytes().all(allows) {
        return Ok(text);
    }
    Err(FieldError::new(section.at(name), format!("must be 1 to 64 characters out of {allowed}")))
}
