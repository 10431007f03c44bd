//! Notices: notifications for people. A notice is written in the transaction of the change it reports. From that outbox it is
//! sent by e-mail and as an operational webhook, at least once, and it is kept in a list.

mod digest;
mod email;
mod messages;
#[cfg(test)]
mod tests;

pub use digest::{Digest, DigestExample, EndpointCount};
pub use email::{Email, EmailRenderer};
pub use messages::{dead_letter, replay_finished, webhook_data};

use super::{
    contract::NoticeChannel,
    event::{Event, OPERATIONAL_PREFIX},
    id::{AppId, DeliveryId, EndpointId, EventId, NoticeId, ReplayId},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident: $name:literal),+ $(,)?) => {
        /// The kind of a notice. Its operational webhook has the type `posthaste.` and this name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum NoticeKind { $($(#[$doc])* $kind),+ }

        impl NoticeKind {
            pub const ALL: &[Self] = &[$(Self::$kind),+];

            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name),+ }
            }

            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|kind| kind.name() == name)
            }

            /// Returns the type of its operational webhook.
            pub fn event_type(self) -> String {
                format!("{OPERATIONAL_PREFIX}{}", self.name())
            }

            /// Whether several notices of an app may share a mail. A dead letter gets its own mail or is in a digest.
            pub const fn gathers(self) -> bool {
                !matches!(self, Self::DeliveryDead)
            }
        }
    };
}

kinds! {
    EndpointDegraded: "endpoint.degraded",
    /// The endpoint will be disabled unless an attempt succeeds.
    EndpointWarning: "endpoint.warning",
    EndpointDisabled: "endpoint.disabled",
    /// The endpoint is healthy again.
    EndpointRecovered: "endpoint.recovered",
    DeliveryDead: "delivery.dead",
    ReplayFinished: "replay.finished",
}

/// The details of a notice. They suffice to render its mail years later, whatever was changed since.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoticeDetails {
    /// A sentence for people.
    #[serde(rename = "text")]
    pub text: String,
    /// When it began, if that was before the notice.
    #[serde(rename = "since", default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The receiver's last error.
    #[serde(rename = "last_error", default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// The machine-readable reason: an endpoint's `disabled_reason`, a delivery's `reason`.
    #[serde(rename = "reason", default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When the endpoint will be disabled, in a warning.
    #[serde(rename = "off_at", default, skip_serializing_if = "Option::is_none")]
    pub disables_at: Option<Timestamp>,
}

/// A notice about to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewNotice {
    pub app: AppId,
    pub kind: NoticeKind,
    pub endpoint: Option<EndpointId>,
    pub delivery: Option<DeliveryId>,
    pub replay: Option<ReplayId>,
    pub at: Timestamp,
    /// The channel from the contract. A notice with channel `None` is not written.
    pub channel: NoticeChannel,
    /// The period for which it is merged with others of its kind and app into a digest, if it is.
    pub digest_window: Option<Duration>,
    pub details: NoticeDetails,
}

impl NewNotice {
    /// Returns the details of a digest that had `before` and counts `count` with this notice.
    pub fn merged_into_digest(&self, before: &NoticeDetails, count: u32) -> NoticeDetails {
        let text = match self.kind {
            NoticeKind::DeliveryDead => messages::dead_letters_text(count),
            _ => format!("{count} times: {}", self.details.text),
        };
        let reason = self.details.reason.clone().filter(|reason| Some(reason) == before.reason.as_ref());
        let since = before.since.into_iter().chain(self.details.since).min();
        NoticeDetails { text, since, reason, ..self.details.clone() }
    }
}

/// A notice as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub id: NoticeId,
    pub app: AppId,
    pub kind: NoticeKind,
    /// In a digest: the endpoint, if there is only one.
    pub endpoint: Option<EndpointId>,
    /// In a digest: the last delivery.
    pub delivery: Option<DeliveryId>,
    pub replay: Option<ReplayId>,
    pub at: Timestamp,
    pub details: NoticeDetails,
    /// The event of its delivery.
    pub event: Option<EventRef>,
    /// The summary of the merged notices, if this is a digest.
    pub digest: Option<Digest>,
    /// The number of notices merged into it: more than one in a digest.
    pub count: u32,
    pub mail: MailState,
    /// Why there was no mail, or the mail server's answer.
    pub mail_error: Option<String>,
    /// When its mail was sent or refused for good.
    pub mailed_at: Option<Timestamp>,
}

impl Notice {
    /// Returns every endpoint it is about, as far as they are known.
    pub fn endpoints(&self) -> impl Iterator<Item = EndpointId> {
        let of_digest = self.digest.iter().flat_map(Digest::endpoints).map(EndpointCount::id);
        self.endpoint.into_iter().chain(of_digest)
    }
}

/// A reference to the event of a delivery, as people know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventRef {
    #[serde(rename = "number")]
    number: i64,
    #[serde(rename = "given_id", default, skip_serializing_if = "Option::is_none")]
    external_id: Option<String>,
    #[serde(rename = "event_type")]
    pub event_type: String,
}

impl EventRef {
    pub fn of(event: &Event) -> Self {
        let (external_id, event_type) = (event.external_id.clone(), event.event_type.clone());
        Self { number: event.id.as_i64(), external_id, event_type }
    }

    pub fn public_id(&self, id_prefix: &str) -> String {
        self.external_id.clone().unwrap_or_else(|| EventId::from_i64(self.number).with_prefix(id_prefix))
    }
}

/// Makes text from outside safe for a line of a mail. Replaces characters that end a line or hide the rest of it, and
/// shortens it.
pub fn one_line(text: &str, chars_max: usize) -> String {
    let is_hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut line: String =
        text.chars().map(|c| if is_hidden(c) { ' ' } else { c }).take(chars_max + 1).collect();
    if line.chars().count() > chars_max {
        line.truncate(line.char_indices().nth(chars_max.saturating_sub(1)).map_or(0, |(at, _)| at));
        line.push('…');
    }
    line
}

/// The state of a notice's e-mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailState {
    /// There is no mail: the contract wants none, or no address is known.
    None,
    Waiting,
    Sent,
    /// The server refused it for good.
    Refused,
}

impl MailState {
    pub const ALL: [Self; 4] = [Self::None, Self::Waiting, Self::Sent, Self::Refused];

    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Waiting => "waiting",
            Self::Sent => "sent",
            Self::Refused => "refused",
        }
    }
}
