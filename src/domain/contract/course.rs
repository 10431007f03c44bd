//! The part of a contract that says how a delivery goes on: waits, the meaning of answers, what being off does.

use super::reader::{Field, words};
use serde_json::Value;
use std::time::Duration;

/// How a wait is spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jitter {
    None,
    /// Uniform between nothing and the whole wait.
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

impl Field for Jitter {
    fn form() -> String {
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

words!(
    /// Whether a receiver's `Retry-After` can lengthen a wait.
    RetryAfter {
        Honour = "honour",
        Ignore = "ignore",
    }
);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryRule {
    /// After the first, second, … failed attempt, from its end. One attempt more than there are waits.
    pub waits: Vec<Duration>,
    pub jitter: Jitter,
    /// After the last failed attempt, before the delivery is dead.
    pub final_wait: Option<Duration>,
    /// The age at which nothing automatic happens any more.
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

/// A status, or a hundred of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statuses {
    Exactly(u16),
    /// The first digit.
    Hundred(u8),
}

impl Field for Statuses {
    fn form() -> String {
        "a status like \"410\" or a hundred of them like \"4xx\"".into()
    }

    fn read(value: &Value) -> Option<Self> {
        match value.as_str()?.as_bytes() {
            [first @ b'1'..=b'5', b'x', b'x'] => Some(Self::Hundred(first - b'0')),
            [a @ b'1'..=b'5', b @ b'0'..=b'9', c @ b'0'..=b'9'] => {
                Some(Self::Exactly([a, b, c].iter().fold(0, |n, &&d| n * 10 + u16::from(d - b'0'))))
            }
            _ => None,
        }
    }

    fn write(&self) -> Value {
        match self {
            Self::Exactly(status) => Value::from(status.to_string()),
            Self::Hundred(first) => Value::from(format!("{first}xx")),
        }
    }
}

/// What a status means under a contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Success,
    Retry,
    /// Dead at once.
    Never,
    /// Dead at once, and the endpoint goes off.
    SwitchOff,
}

/// Lists of statuses; whatever is in none of them is tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    pub success: Vec<Statuses>,
    pub never: Vec<Statuses>,
    pub switch_off: Vec<Statuses>,
    /// After these people are advised to rotate the secret.
    pub advise_rotation: Vec<Statuses>,
}

impl Answers {
    /// A status named exactly beats the hundred it belongs to.
    pub fn meaning(&self, status: u16) -> Answer {
        let hundred = Statuses::Hundred((status / 100) as u8);
        self.find(Statuses::Exactly(status)).or_else(|| self.find(hundred)).unwrap_or(Answer::Retry)
    }

    /// What to do about a last answer of this status, in words.
    pub fn advice(&self, status: u16) -> Option<String> {
        let named = [Statuses::Exactly(status), Statuses::Hundred((status / 100) as u8)];
        named.iter().any(|statuses| self.advise_rotation.contains(statuses)).then(|| {
            format!("The receiver answered {status}: its secret may be out of date; rotate the secret.")
        })
    }

    fn find(&self, statuses: Statuses) -> Option<Answer> {
        let lists = [
            (&self.success, Answer::Success),
            (&self.switch_off, Answer::SwitchOff),
            (&self.never, Answer::Never),
        ];
        lists.into_iter().find(|(list, _)| list.contains(&statuses)).map(|(_, answer)| answer)
    }
}

words!(
    /// Whether attempts keep exactly to their times.
    Pacing {
        /// No circuit, no pause, no `Retry-After`.
        Strict = "strict",
        /// The lane yields to a receiver in trouble.
        Adaptive = "adaptive",
    }
);

words!(
    /// What becomes of deliveries that wait when their endpoint goes off.
    WaitingWhenOff {
        Held = "held",
        Cancelled = "cancelled",
    }
);

words!(
    /// What becomes of an event for an endpoint that is off.
    PublishedWhileOff {
        Held = "held",
        Cancelled = "cancelled",
        /// No delivery is made.
        None = "none",
    }
);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffRule {
    pub waiting: WaitingWhenOff,
    pub published: PublishedWhileOff,
}

/// How long something is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    For(Duration),
    Forever,
}

impl Field for Keep {
    fn form() -> String {
        format!("\"forever\" or {}", Duration::form())
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
    pub events: Keep,
    pub attempts: Keep,
    pub payloads: Keep,
    pub dead_letters: Keep,
}

impl Retention {
    pub const FOREVER: Self = Self {
        events: Keep::Forever,
        attempts: Keep::Forever,
        payloads: Keep::Forever,
        dead_letters: Keep::Forever,
    };
}

/// How often, and how long each time, putting the body together and signing it is tried before it has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenderingRule {
    pub tries: u32,
    pub timeout: Duration,
}
