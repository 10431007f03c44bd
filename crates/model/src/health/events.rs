//! Health events of an endpoint: their notices, and how the endpoint is disabled.

use crate::{
    contract::{Contract, NoticeChannel},
    endpoint::{Disabled, DisabledBy, DisabledReason},
    id::{AppId, EndpointId},
    notice::{NewNotice, NoticeDetails, NoticeKind},
    time::{Timestamp, format_duration},
};

/// A change of an endpoint's health that people are notified of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthEvent {
    /// This percentage of the attempts or deliveries that its contract evaluates failed.
    Degraded {
        percent: u64,
        since: Timestamp,
    },
    /// This many attempts in a row failed.
    Failing {
        in_a_row: u32,
        since: Timestamp,
    },
    /// The endpoint is disabled at `disables_at` unless an attempt succeeds.
    Warning {
        since: Timestamp,
        disables_at: Timestamp,
    },
    /// This many events in a row ended failed: it is disabled.
    TooManyFailedEvents {
        events: u32,
        since: Option<Timestamp>,
    },
    /// No attempt succeeded for too long: it is disabled.
    FailingTooLong {
        since: Timestamp,
    },
    /// The receiver answered that it is gone: it is disabled.
    Gone,
    Recovered {
        since: Timestamp,
        by: NoticeChannel,
    },
}

/// The endpoint that a health event is about, with its context.
#[derive(Clone, Copy, Debug)]
pub struct HealthContext<'a> {
    pub app: AppId,
    pub endpoint: EndpointId,
    pub contract: &'a Contract,
    pub at: Timestamp,
    pub last_error: Option<&'a str>,
}

impl HealthEvent {
    /// Returns how the endpoint is disabled, if this event disables it. `Gone` is handled where the answer is.
    pub fn disabled(&self, contract: &Contract, at: Timestamp) -> Option<Disabled> {
        matches!(self, Self::TooManyFailedEvents { .. } | Self::FailingTooLong { .. }).then(|| Disabled {
            reason: DisabledReason::Rule(contract.health.off_reason.clone()),
            at,
            waiting: contract.off.waiting,
            by: Some(DisabledBy::Posthaste),
        })
    }

    pub fn notice(&self, about: &HealthContext<'_>) -> NewNotice {
        let notices = &about.contract.notices;
        let (kind, channel) = match self {
            Self::Degraded { .. } | Self::Failing { .. } => (NoticeKind::EndpointDegraded, notices.degraded),
            Self::Warning { .. } => (NoticeKind::EndpointWarning, notices.off_warning),
            Self::TooManyFailedEvents { .. } | Self::FailingTooLong { .. } | Self::Gone => {
                (NoticeKind::EndpointDisabled, notices.disabled)
            }
            Self::Recovered { by, .. } => (NoticeKind::EndpointRecovered, *by),
        };
        let (since, disables_at) = match *self {
            Self::Warning { since, disables_at } => (Some(since), Some(disables_at)),
            Self::Degraded { since, .. }
            | Self::Failing { since, .. }
            | Self::FailingTooLong { since }
            | Self::Recovered { since, .. } => (Some(since), None),
            Self::TooManyFailedEvents { since, .. } => (since, None),
            Self::Gone => (None, None),
        };
        let facts = NoticeDetails {
            text: self.text(about.contract),
            since,
            last_error: about.last_error.filter(|_| kind != NoticeKind::EndpointRecovered).map(str::to_owned),
            reason: Some(self.reason(about.contract).to_owned()),
            disables_at,
        };
        notice(about.app, about.endpoint, kind, channel, about.at, facts)
    }

    fn reason<'a>(&self, contract: &'a Contract) -> &'a str {
        match self {
            Self::Degraded { .. } => "degraded",
            Self::Failing { .. } => "failing",
            Self::Warning { .. } | Self::TooManyFailedEvents { .. } | Self::FailingTooLong { .. } => {
                &contract.health.off_reason
            }
            Self::Gone => "gone",
            Self::Recovered { .. } => "recovered",
        }
    }

    fn text(&self, contract: &Contract) -> String {
        let rule = &contract.health;
        match self {
            Self::Degraded { percent, .. } => match rule.degraded_window {
                Some(window) => {
                    let window = format_duration(window);
                    format!(
                        "{percent} % of the deliveries to this endpoint that ended within {window} failed."
                    )
                }
                None => format!("{percent} % of the attempts at this endpoint within the last hour failed."),
            },
            Self::Failing { in_a_row, .. } => {
                format!("The last {in_a_row} attempts at this endpoint failed, one after the other.")
            }
            Self::Warning { since, disables_at } => format!(
                "Nothing that was sent to this endpoint since {} was taken. It will be switched off at {}, unless \
                 something succeeds before.",
                since.rfc3339_seconds(),
                disables_at.rfc3339_seconds()
            ),
            Self::TooManyFailedEvents { events, .. } => format!(
                "This endpoint was switched off: {events} events in a row ended failed. Switch it on again once its \
                 receiver works."
            ),
            Self::FailingTooLong { since } => format!(
                "This endpoint was switched off: nothing that was sent to it since {} was taken. Switch it on again once \
                 its receiver works.",
                since.rfc3339_seconds()
            ),
            Self::Gone => "This endpoint was switched off: its receiver answered that it is gone.".to_owned(),
            Self::Recovered { since, .. } => {
                format!("This endpoint works again; its trouble began at {}.", since.rfc3339_seconds())
            }
        }
    }
}

/// Makes the notice of a manual disabling. It is only listed and not mailed, as people know what they did themselves.
pub fn disabled_manually(app: AppId, endpoint: EndpointId, disabled: &Disabled) -> NewNotice {
    let by = match &disabled.by {
        Some(DisabledBy::Key { id, name: Some(name) }) => format!(" with the key {id} ({name})"),
        Some(DisabledBy::Key { id, name: None }) => format!(" with the key {id}"),
        _ => String::new(),
    };
    let facts = NoticeDetails {
        text: format!("This endpoint was switched off by hand{by}."),
        reason: Some(disabled.reason.name().to_owned()),
        ..NoticeDetails::default()
    };
    notice(app, endpoint, NoticeKind::EndpointDisabled, NoticeChannel::List, disabled.at, facts)
}

fn notice(
    app: AppId,
    endpoint: EndpointId,
    kind: NoticeKind,
    channel: NoticeChannel,
    at: Timestamp,
    facts: NoticeDetails,
) -> NewNotice {
    let endpoint = Some(endpoint);
    NewNotice {
        app,
        kind,
        endpoint,
        delivery: None,
        replay: None,
        at,
        channel,
        digest_window: None,
        details: facts,
    }
}
