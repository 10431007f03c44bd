//! Contract sections for the course of a delivery: retries, meaning of responses, pacing, disabled endpoints, retention,
//! rendering.

use super::field_reader::{FieldValue, string_enum};
use serde_json::Value;
use std::time::Duration;

/// Random variation of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jitter {
    None,
    /// Uniform between zero and the whole wait.
    Full,
    /// Uniform within this many percent of the wait, to either side.
    Percent(u8),
}

/// Reads `20%`, from 1 to `most`, without leading zeros.
pub(super) fn percent(text: &str, most: u8) -> Option<u8> {
    let digits = text.strip_suffix('%')?;
    let plain = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
    digits.parse().ok().filter(|percent| plain && (1..=most).contains(percent))
}

impl FieldValue for Jitter {
    fn allowed_form() -> String {
        "\"none\", \"full\" or a percentage from \"1%\" to \"100%\"".into()
    }

    fn read(value: &Value) -> Option<Self> {
        match value.as_str()? {
            "none" => Some(Self::None),
            "full" => Some(Self::Full),
            text => percent(text, 100).map(Self::Percent),
        }
    }

    fn write(&self) -> Value {
        match self {
            Self::None => Value::from("none"),
            Self::Full => Value::from("full"),
            Self::Percent(percent) => Value::from(format!("{percent}%")),
        }
    }
}

string_enum!(
    /// Whether a receiver's `Retry-After` can lengthen a wait.
    RetryAfter {
        Honour = "honour",
        Ignore = "ignore",
    }
);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryRule {
    /// Waits after the first, second, … failed attempt, from its end. There is one attempt more than waits.
    pub waits: Vec<Duration>,
    pub jitter: Jitter,
    /// Wait after the last failed attempt before the delivery is dead.
    pub final_wait: Option<Duration>,
    /// Age from which no automatic attempt is made.
    pub give_up_after: Option<Duration>,
    /// Whether that age also ends a delivery that is held.
    pub give_up_while_held: bool,
    pub retry_after: RetryAfter,
}

impl RetryRule {
    pub fn longest_wait(&self) -> Duration {
        self.waits.iter().copied().max().unwrap_or_default()
    }
}

/// A status, or a class of 100 statuses such as `4xx`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusPattern {
    Exactly(u16),
    /// First digit of the class.
    Class(u8),
}

impl FieldValue for StatusPattern {
    fn allowed_form() -> String {
        "a status like \"410\" or a hundred of them like \"4xx\"".into()
    }

    fn read(value: &Value) -> Option<Self> {
        match value.as_str()?.as_bytes() {
            [first @ b'1'..=b'5', b'x', b'x'] => Some(Self::Class(first - b'0')),
            [a @ b'1'..=b'5', b @ b'0'..=b'9', c @ b'0'..=b'9'] => {
                Some(Self::Exactly([a, b, c].iter().fold(0, |n, &&d| n * 10 + u16::from(d - b'0'))))
            }
            _ => None,
        }
    }

    fn write(&self) -> Value {
        match self {
            Self::Exactly(status) => Value::from(status.to_string()),
            Self::Class(first) => Value::from(format!("{first}xx")),
        }
    }
}

/// Meaning of a status under a contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseMeaning {
    Success,
    Retry,
    /// Dead at once.
    Never,
    /// Dead at once, and the endpoint is disabled.
    DisableEndpoint,
}

/// Lists of statuses; a status in none of the first three is tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseRules {
    pub success: Vec<StatusPattern>,
    pub never: Vec<StatusPattern>,
    pub disable: Vec<StatusPattern>,
    /// Statuses after which people are advised to rotate the secret.
    pub advise_rotation: Vec<StatusPattern>,
}

impl ResponseRules {
    /// Returns the meaning of a status; an exact status takes precedence over its class.
    pub fn meaning(&self, status: u16) -> ResponseMeaning {
        let hundred = StatusPattern::Class((status / 100) as u8);
        self.find(StatusPattern::Exactly(status))
            .or_else(|| self.find(hundred))
            .unwrap_or(ResponseMeaning::Retry)
    }

    /// Returns advice on a last response of this status, if `advise_rotation` lists it.
    pub fn advice(&self, status: u16) -> Option<String> {
        let named = [StatusPattern::Exactly(status), StatusPattern::Class((status / 100) as u8)];
        named.iter().any(|statuses| self.advise_rotation.contains(statuses)).then(|| {
            format!("The receiver answered {status}: its secret may be out of date; rotate the secret.")
        })
    }

    fn find(&self, statuses: StatusPattern) -> Option<ResponseMeaning> {
        let lists = [
            (&self.success, ResponseMeaning::Success),
            (&self.disable, ResponseMeaning::DisableEndpoint),
            (&self.never, ResponseMeaning::Never),
        ];
        lists.into_iter().find(|(list, _)| list.contains(&statuses)).map(|(_, answer)| answer)
    }
}

string_enum!(
    /// Whether attempts keep exactly to their schedule.
    Pacing {
        /// No circuit breaker, no pause, no `Retry-After`.
        Strict = "strict",
        /// The endpoint queue slows down for a receiver in trouble.
        Adaptive = "adaptive",
    }
);

string_enum!(
    /// State of waiting deliveries when their endpoint is disabled.
    WaitingWhenDisabled {
        Held = "held",
        Cancelled = "cancelled",
    }
);

string_enum!(
    /// State of the delivery of an event that is published while the endpoint is disabled.
    PublishedWhileDisabled {
        Held = "held",
        Cancelled = "cancelled",
        /// No delivery is created.
        None = "none",
    }
);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DisabledRule {
    pub waiting: WaitingWhenDisabled,
    pub published: PublishedWhileDisabled,
}

/// How long something is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetentionPeriod {
    For(Duration),
    Forever,
}

impl FieldValue for RetentionPeriod {
    fn allowed_form() -> String {
        format!("\"forever\" or {}", Duration::allowed_form())
    }

    fn read(value: &Value) -> Option<Self> {
        if value == "forever" { Some(Self::Forever) } else { Duration::read(value).map(Self::For) }
    }

    fn write(&self) -> Value {
        match self {
            Self::For(duration) => duration.write(),
            Self::Forever => Value::from("forever"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    pub events: RetentionPeriod,
    pub attempts: RetentionPeriod,
    pub payloads: RetentionPeriod,
    pub dead_letters: RetentionPeriod,
}

impl Retention {
    pub const FOREVER: Self = Self {
        events: RetentionPeriod::Forever,
        attempts: RetentionPeriod::Forever,
        payloads: RetentionPeriod::Forever,
        dead_letters: RetentionPeriod::Forever,
    };
}

/// Number of tries to render and sign the request, and the time limit of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenderingRule {
    pub tries: u32,
    pub timeout: Duration,
}
