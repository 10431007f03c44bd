//! Errors that keep a leased delivery from being sent. None is caused by the receiver.

use crate::domain::{
    body::SerialisationFailed, event_type::NoSuchVersion, signer::SigningFailed, verdict::DeadReason,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// Reason why the delivery ends. Absent if the error is temporary: the delivery is tried again.
    pub(super) ends: Option<DeadReason>,
    /// Message for the delivery's history.
    pub(super) error: String,
}

impl Fault {
    pub(super) fn passing(error: impl Into<String>) -> Self {
        Self { ends: None, error: error.into() }
    }

    pub(super) fn no_payload(error: impl Into<String>) -> Self {
        Self { ends: Some(DeadReason::SerialisationFailed), error: error.into() }
    }
}

impl From<SerialisationFailed> for Fault {
    fn from(failed: SerialisationFailed) -> Self {
        Self::no_payload(failed.to_string())
    }
}

impl From<NoSuchVersion> for Fault {
    fn from(failed: NoSuchVersion) -> Self {
        Self::no_payload(failed.to_string())
    }
}

impl From<SigningFailed> for Fault {
    fn from(failed: SigningFailed) -> Self {
        Self { ends: Some(DeadReason::SigningFailed), error: failed.to_string() }
    }
}
