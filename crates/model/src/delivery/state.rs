//! States of a delivery, and reasons for its end. Their order is their number in the store.

use crate::verdict::DeadReason;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeliveryState {
    Pending,
    Retrying,
    InFlight,
    Held,
    Delivered,
    Dead,
    Cancelled,
    Expired,
}

impl DeliveryState {
    pub const ALL: [Self; 8] = [
        Self::Pending,
        Self::Retrying,
        Self::InFlight,
        Self::Held,
        Self::Delivered,
        Self::Dead,
        Self::Cancelled,
        Self::Expired,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Retrying => "retrying",
            Self::InFlight => "in_flight",
            Self::Held => "held",
            Self::Delivered => "delivered",
            Self::Dead => "dead",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Delivered | Self::Dead | Self::Cancelled | Self::Expired)
    }

    /// Whether it has a due time and is neither in flight nor held.
    pub const fn is_waiting(self) -> bool {
        matches!(self, Self::Pending | Self::Retrying)
    }

    /// Rank in the status of an event with several deliveries: the largest wins, unfinished ones come first.
    pub const fn severity(self) -> u8 {
        match self {
            Self::Retrying => 8,
            Self::Held => 7,
            Self::InFlight => 6,
            Self::Pending => 5,
            Self::Dead => 4,
            Self::Expired => 3,
            Self::Cancelled => 2,
            Self::Delivered => 1,
        }
    }
}

/// Why a delivery ended as it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndReason {
    Exhausted,
    RefusedByReceiver,
    SerialisationFailed,
    SigningFailed,
    Closed,
    EndpointDisabled,
    EndpointDeleted,
    Manual,
    GaveUp,
    /// Still waiting when its event's retention ended.
    Retention,
}

impl EndReason {
    pub const ALL: [Self; 10] = [
        Self::Exhausted,
        Self::RefusedByReceiver,
        Self::SerialisationFailed,
        Self::SigningFailed,
        Self::Closed,
        Self::EndpointDisabled,
        Self::EndpointDeleted,
        Self::Manual,
        Self::GaveUp,
        Self::Retention,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Exhausted => "exhausted",
            Self::RefusedByReceiver => "refused_by_receiver",
            Self::SerialisationFailed => "serialisation_failed",
            Self::SigningFailed => "signing_failed",
            Self::Closed => "closed",
            Self::EndpointDisabled => "endpoint_off",
            Self::EndpointDeleted => "endpoint_deleted",
            Self::Manual => "by_hand",
            Self::GaveUp => "give_up_after",
            Self::Retention => "retention",
        }
    }
}

impl From<DeadReason> for EndReason {
    fn from(reason: DeadReason) -> Self {
        match reason {
            DeadReason::Exhausted => Self::Exhausted,
            DeadReason::RefusedByReceiver => Self::RefusedByReceiver,
            DeadReason::SerialisationFailed => Self::SerialisationFailed,
            DeadReason::SigningFailed => Self::SigningFailed,
        }
    }
}
