//! Rate limits: how many requests may be sent in a second, held by a token bucket.
//!
//! Pure arithmetic on thousandths of a token, so that nothing is lost between two readings of a millisecond clock. In any
//! window of time at most `burst` plus the window's worth of tokens are used.

use super::{field_error::FieldError, time::Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::time::Duration;

pub const PER_SECOND_MAX: u32 = 100_000;
const IN_FLIGHT_MAX: u32 = 65_536;
const TOKEN_THOUSANDTHS: i64 = 1000;

/// Requests in a second, and how many of them may be sent at once after a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateLimit {
    #[serde(rename = "per_second")]
    pub per_second: u32,
    #[serde(rename = "burst")]
    pub burst: u32,
}

impl RateLimit {
    /// Makes a limit with a burst of one second's worth.
    pub const fn per_second(per_second: u32) -> Self {
        Self { per_second, burst: per_second }
    }

    /// Reads a rate limit; `field` is its name in errors.
    pub fn read(field: &str, fields: &Map<String, Value>) -> Result<Self, FieldError> {
        check_known_fields(field, fields, &["per_second", "burst"])?;
        let per_second = number(field, fields, "per_second", PER_SECOND_MAX)?
            .ok_or_else(|| FieldError::new(format!("{field}.per_second"), "is required"))?;
        let burst = number(field, fields, "burst", PER_SECOND_MAX)?.unwrap_or(per_second);
        Ok(Self { per_second, burst })
    }
}

/// The sending limits that an operator sets for an app. For an absent one the server's settings apply, if any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppLimits {
    #[serde(rename = "max_in_flight", default, skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<u32>,
    #[serde(rename = "rate_limit", default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimit>,
}

impl AppLimits {
    /// Reads the field `limits`. Returns `None` if it limits nothing.
    pub fn read(fields: &Map<String, Value>) -> Result<Option<Self>, FieldError> {
        check_known_fields("limits", fields, &["max_in_flight", "rate_limit"])?;
        let rate_limit = match fields.get("rate_limit") {
            None | Some(Value::Null) => None,
            Some(Value::Object(rate)) => Some(RateLimit::read("limits.rate_limit", rate)?),
            Some(_) => return Err(FieldError::new("limits.rate_limit", "must be an object")),
        };
        let limits =
            Self { max_in_flight: number("limits", fields, "max_in_flight", IN_FLIGHT_MAX)?, rate_limit };
        Ok((limits != Self::default()).then_some(limits))
    }
}

fn check_known_fields(field: &str, fields: &Map<String, Value>, names: &[&str]) -> Result<(), FieldError> {
    match fields.keys().find(|name| !names.contains(&name.as_str())) {
        None => Ok(()),
        Some(unknown) => {
            Err(FieldError::unknown(format!("{field}.{unknown}"), unknown, names.iter().copied()))
        }
    }
}

fn number(
    field: &str,
    fields: &Map<String, Value>,
    name: &str,
    most: u32,
) -> Result<Option<u32>, FieldError> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let fitting = value.as_u64().and_then(|number| u32::try_from(number).ok());
            fitting.filter(|number| (1..=most).contains(number)).map(Some).ok_or_else(|| {
                let allowed = format!("must be a whole number from 1 to {most}");
                FieldError::new(format!("{field}.{name}"), allowed)
            })
        }
    }
}

/// Callers read the clock a moment before their turn comes, so `now` may lag a little; beyond this the clock was set back.
const CLOCK_LAG_MAX: Duration = Duration::from_secs(5);

/// The time up to which a bucket was filled.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RefilledAt(Option<Timestamp>);

impl RefilledAt {
    /// Returns the milliseconds passed since the last call. No time counts twice. A clock that was set back counts as
    /// nothing, and counting continues from its new time.
    pub(super) fn elapsed_ms(&mut self, now: Timestamp) -> i64 {
        let filled_to = self.0.unwrap_or(now);
        let is_late = filled_to > now && filled_to.since(now) <= CLOCK_LAG_MAX;
        self.0 = Some(if is_late { filled_to } else { now });
        i64::try_from(now.since(filled_to).as_millis()).unwrap_or(i64::MAX)
    }
}

/// Adds a thousandth per millisecond and unit of the rate, up to `room`.
pub(super) fn fill(level: &mut i64, per_second: i64, room: i64, passed_ms: i64) {
    *level = level.saturating_add(per_second.saturating_mul(passed_ms)).min(room.saturating_mul(1000));
}

/// Returns how long it takes to fill `missing` thousandths.
pub(super) fn time_to_fill(missing: i64, per_second: i64) -> Duration {
    Duration::from_millis(missing.unsigned_abs().div_ceil(per_second.unsigned_abs().max(1)))
}

/// The token bucket of one limit. A sender reserves a token first and spends it when the request is sent, which may be later.
/// Reserved tokens stay set aside, so that tokens reserved one by one and spent together never exceed a burst. Reservations
/// are counted even without a limit, as one may be set before the request is sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokenBucket {
    level: i64,
    reserved: i64,
    refilled_at: RefilledAt,
}

impl TokenBucket {
    /// Makes a bucket that is empty at `at`, or at its first use if no time is given.
    pub fn empty_at(at: Option<Timestamp>) -> Self {
        Self { level: 0, reserved: 0, refilled_at: RefilledAt(at) }
    }

    /// Checks whether a token is free; if not, the error is how long until one may be.
    pub fn check(&mut self, limit: RateLimit, now: Timestamp) -> Result<(), Duration> {
        let (rate, room) = (i64::from(limit.per_second), i64::from(limit.burst));
        let passed = self.refilled_at.elapsed_ms(now);
        fill(&mut self.level, rate, room, passed);
        let missing =
            self.reserved.saturating_add(1).saturating_mul(TOKEN_THOUSANDTHS).saturating_sub(self.level);
        if missing <= 0 { Ok(()) } else { Err(time_to_fill(missing, rate)) }
    }

    /// Resets the bucket to empty, for a new limit. Reservations made under the old limit stay.
    pub fn reset(&mut self, at: Option<Timestamp>) {
        (self.level, self.refilled_at) = (0, RefilledAt(at));
    }

    /// Reserves a token, after a check that found one.
    pub fn reserve(&mut self) {
        self.reserved += 1;
    }

    /// Spends a reserved token now, under the current limit.
    pub fn spend(&mut self, limit: Option<RateLimit>, now: Timestamp) {
        self.put_back();
        if let Some(limit) = limit {
            let _ = self.check(limit, now);
            self.level = self.level.saturating_sub(TOKEN_THOUSANDTHS);
        }
    }

    /// Returns a reserved token unused: the request is not sent.
    pub fn put_back(&mut self) {
        self.reserved = (self.reserved - 1).max(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000 + ms)
    }

    fn take(tokens: &mut TokenBucket, limit: RateLimit, now: i64) -> bool {
        let found = tokens.check(limit, at(now)).is_ok();
        if found {
            tokens.reserve();
        }
        found
    }

    fn within(used: &[i64], limit: RateLimit) -> bool {
        used.iter().enumerate().all(|(first, from)| {
            used[first..].iter().zip(1i64..).all(|(until, count)| {
                count * TOKEN_THOUSANDTHS
                    <= i64::from(limit.burst) * TOKEN_THOUSANDTHS
                        + i64::from(limit.per_second) * (until - from)
            })
        })
    }

    proptest! {
        /// Tokens are taken, put back, or reserved early and spent late, and the process restarts with none.
        #[test]
        fn no_window_uses_more_tokens_than_the_burst_and_its_rate(
            per_second in 1u32..50,
            burst in 1u32..20,
            steps in prop::collection::vec((0i64..400, 0u8..12), 1..300),
        ) {
            let limit = RateLimit { per_second, burst };
            let (mut tokens, mut now) = (TokenBucket::empty_at(None), 0);
            let (mut used, mut early) = (Vec::new(), 0);
            for (step, what) in steps {
                now += step;
                match what {
                    0 => (tokens, early) = (TokenBucket::empty_at(None), 0),
                    1..4 => early += u32::from(take(&mut tokens, limit, now)),
                    4 if early > 0 => {
                        early -= 1;
                        tokens.put_back();
                    }
                    5 | 6 if early > 0 => {
                        early -= 1;
                        tokens.spend(Some(limit), at(now));
                        used.push(now);
                    }
                    _ if take(&mut tokens, limit, now) => {
                        tokens.spend(Some(limit), at(now));
                        used.push(now);
                    }
                    _ => {}
                }
            }
            prop_assert!(within(&used, limit), "{:?}", used);
        }

        #[test]
        fn a_token_is_free_after_exactly_the_named_wait(
            per_second in 1u32..5000, burst in 1u32..5, takes in 0usize..20, later in 0i64..3000,
        ) {
            let limit = RateLimit { per_second, burst };
            let mut tokens = TokenBucket::empty_at(Some(at(0)));
            for _ in 0..takes {
                if take(&mut tokens, limit, later) {
                    tokens.spend(Some(limit), at(later));
                }
            }
            if let Err(wait) = tokens.check(limit, at(later)) {
                let wait = wait.as_millis() as i64;
                prop_assert!(tokens.check(limit, at(later + wait - 1)).is_err());
                prop_assert_eq!(tokens.check(limit, at(later + wait)), Ok(()));
            }
        }
    }

    #[test]
    fn a_reservation_made_before_a_limit_changed_uses_a_token_of_the_new_limit() {
        let (old, new) = (RateLimit::per_second(5), RateLimit { per_second: 1, burst: 2 });
        let mut tokens = TokenBucket::empty_at(Some(at(0)));
        (0..2).for_each(|_| assert!(take(&mut tokens, old, 1000)));
        tokens.reset(None);
        assert!(!take(&mut tokens, new, 1000), "nothing is saved up");
        // Two tokens arrive, and both belong to reservations that are not sent yet.
        assert!(!take(&mut tokens, new, 3000));
        tokens.put_back();
        assert!(take(&mut tokens, new, 3000));
        tokens.spend(Some(new), at(3000));
        tokens.spend(Some(new), at(3000));
        assert!(!take(&mut tokens, new, 3999) && take(&mut tokens, new, 4000));
        // Without a limit they are sent all the same, and no reservation is left.
        tokens.reset(None);
        tokens.spend(None, at(4000));
        assert!(!take(&mut tokens, new, 4000) && take(&mut tokens, new, 5000));
    }

    #[test]
    fn an_invalid_limit_is_refused_with_the_name_of_its_field() {
        let read = |value: Value| {
            RateLimit::read("rate_limit", value.as_object().unwrap()).map_err(|error| error.field)
        };
        assert_eq!(read(json!({ "per_second": 5 })), Ok(RateLimit::per_second(5)));
        assert_eq!(read(json!({ "per_second": 5, "burst": 1 })), Ok(RateLimit { per_second: 5, burst: 1 }));
        for bad in [json!(0), json!(-1), json!(1.5), json!("5"), json!(100_001)] {
            let wrong = |field: &str| Err(format!("rate_limit.{field}"));
            assert_eq!(read(json!({ "per_second": bad })), wrong("per_second"), "{bad}");
            assert_eq!(read(json!({ "per_second": 5, "burst": bad })), wrong("burst"), "{bad}");
        }
        assert_eq!(read(json!({ "burst": 5 })), Err("rate_limit.per_second".to_owned()));
        assert_eq!(read(json!({ "per_second": 5, "bust": 5 })), Err("rate_limit.bust".to_owned()));
        let limits = |value: Value| AppLimits::read(value.as_object().unwrap()).map_err(|error| error.field);
        assert_eq!(limits(json!({ "max_in_flight": null })), Ok(None));
        assert_eq!(limits(json!({ "max_in_flight": 0 })), Err("limits.max_in_flight".to_owned()));
        assert_eq!(limits(json!({ "rate_limit": 5 })), Err("limits.rate_limit".to_owned()));
        let nested = limits(json!({ "rate_limit": { "per_second": 0 } }));
        assert_eq!(nested, Err("limits.rate_limit.per_second".to_owned()));
        let both = limits(json!({ "max_in_flight": 3, "rate_limit": { "per_second": 2 } }));
        let rate_limit = Some(RateLimit::per_second(2));
        assert_eq!(both, Ok(Some(AppLimits { max_in_flight: Some(3), rate_limit })));
    }
}
