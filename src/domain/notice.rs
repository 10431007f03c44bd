//! Notices: what people are told. A notice is written in the transaction of what it tells of; from that outbox it goes out by
//! e-mail and as an operational webhook, at least once, and it stands in a list.

use super::{
    contract::Channel,
    id::{AppId, DeliveryId, EndpointId, NoticeId, ReplayId},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident: $name:literal),+ $(,)?) => {
        /// What a notice tells of. Its operational webhook has the type `posthaste.` and this name.
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
        }
    };
}

kinds! {
    EndpointDegraded: "endpoint.degraded",
    /// It will be switched off unless something succeeds.
    EndpointWarning: "endpoint.warning",
    EndpointDisabled: "endpoint.disabled",
    /// It is healthy again.
    EndpointRecovered: "endpoint.recovered",
    DeliveryDead: "delivery.dead",
    ReplayFinished: "replay.finished",
}

/// What happened, since when, and what went wrong last: enough to write a mail from years later, whatever was changed since.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// One sentence for people.
    pub text: String,
    /// Since when, where it did not begin with the notice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// What the receiver did last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// A machine's word for why: an endpoint's `disabled_reason`, a delivery's `reason`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When the endpoint will be switched off, in a warning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_at: Option<Timestamp>,
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
    /// As the contract says; a notice whose channel is none is not written.
    pub channel: Channel,
    /// Gathered into one with others of its kind and app for so long, instead of standing alone.
    pub digest: Option<Duration>,
    pub facts: Facts,
}

/// A notice as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub id: NoticeId,
    pub app: AppId,
    pub kind: NoticeKind,
    pub endpoint: Option<EndpointId>,
    /// Of a digest: the last one.
    pub delivery: Option<DeliveryId>,
    pub replay: Option<ReplayId>,
    pub at: Timestamp,
    pub facts: Facts,
    /// How many it stands for: more than one in a digest.
    pub count: u32,
    pub mail: MailState,
}

/// What became of a notice's e-mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailState {
    /// It has none: the contract wants none, or nobody's address is known.
    None,
    Waiting,
    Sent,
    /// The server would never take it.
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
