//! Reads the sections for the course of a delivery: `retry`, `answers`, `off`, `retention`, `rendering`.

use super::{DAY, DURATION_MIN, FieldResult, REQUEST_TIMEOUT_MAX, check_range};
use crate::{
    contract::{
        delivery_rules::{
            DisabledRule, Jitter, PublishedWhileDisabled, RenderingRule, ResponseRules, Retention,
            RetentionPeriod, RetryAfter, RetryRule, StatusPattern, WaitingWhenDisabled,
        },
        field_reader::Section,
    },
    field_error::FieldError,
};
use std::time::Duration;

const WAITS_MAX: usize = 32;
const WAIT_MAX: Duration = DAY.saturating_mul(30);

pub(super) fn read_retry(retry: &Section) -> FieldResult<RetryRule> {
    let waits: Vec<Duration> = retry.list("waits", WAITS_MAX, None)?;
    for (i, wait) in waits.iter().enumerate() {
        check_range(retry, &format!("waits[{i}]"), *wait, DURATION_MIN, WAIT_MAX)?;
    }
    let bounded = |name, max| {
        let duration: Option<Duration> = retry.optional(name)?;
        duration.map(|duration| check_range(retry, name, duration, DURATION_MIN, max)).transpose()
    };
    Ok(RetryRule {
        waits,
        jitter: retry.or("jitter", Jitter::None)?,
        final_wait: bounded("final_wait", WAIT_MAX)?,
        give_up_after: bounded("give_up_after", DAY * 365)?,
        give_up_while_held: retry.or("give_up_while_held", false)?,
        retry_after: retry.or("retry_after", RetryAfter::Ignore)?,
    })
}

pub(super) fn read_answers(section: &Section) -> FieldResult<ResponseRules> {
    let answers = ResponseRules {
        success: section.list("success", 32, Some(vec![StatusPattern::Class(2)]))?,
        never: section.list("never", 32, Some(Vec::new()))?,
        disable: section.list("switch_off", 32, Some(Vec::new()))?,
        advise_rotation: section.list("advise_rotation", 32, Some(Vec::new()))?,
    };
    if answers.success.is_empty() {
        return Err(FieldError::new(
            "answers.success",
            "must name a status; nothing could ever be delivered",
        ));
    }
    let earlier: Vec<_> = answers.success.iter().chain(&answers.never).collect();
    if answers.never.iter().any(|statuses| answers.success.contains(statuses)) {
        return Err(FieldError::new("answers.never", "names what `answers.success` names"));
    }
    if answers.disable.iter().any(|statuses| earlier.contains(&statuses)) {
        return Err(FieldError::new("answers.switch_off", "names what another list of `answers` names"));
    }
    if answers.advise_rotation.iter().any(|statuses| answers.success.contains(statuses)) {
        return Err(FieldError::new("answers.advise_rotation", "names what `answers.success` names"));
    }
    Ok(answers)
}

pub(super) fn read_off(off: &Section) -> FieldResult<DisabledRule> {
    Ok(DisabledRule {
        waiting: off.or("waiting", WaitingWhenDisabled::Held)?,
        published: off.or("published", PublishedWhileDisabled::Held)?,
    })
}

pub(super) fn read_retention(retention: &Section) -> FieldResult<Retention> {
    let keep = |name| match retention.or(name, RetentionPeriod::For(DAY * 30))? {
        RetentionPeriod::Forever => Ok(RetentionPeriod::Forever),
        RetentionPeriod::For(d) => {
            check_range(retention, name, d, Duration::from_mins(1), DAY * 3650).map(RetentionPeriod::For)
        }
    };
    Ok(Retention {
        events: keep("events")?,
        attempts: keep("attempts")?,
        payloads: keep("payloads")?,
        dead_letters: keep("dead_letters")?,
    })
}

pub(super) fn read_rendering(rendering: &Section) -> FieldResult<RenderingRule> {
    let timeout = rendering.or("timeout", Duration::from_secs(5))?;
    let rule = RenderingRule {
        tries: rendering.or("tries", 1)?,
        timeout: check_range(rendering, "timeout", timeout, DURATION_MIN, REQUEST_TIMEOUT_MAX)?,
    };
    if (1..=10).contains(&rule.tries) {
        return Ok(rule);
    }
    Err(FieldError::new("rendering.tries", "must be from 1 to 10"))
}
