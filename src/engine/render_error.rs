//! Errors that keep a leased delivery from being sent. None is caused by the receiver.

use crate::{
    domain::{body::SerialisationError, signing_keys::SigningError, verdict::DeadReason},
    functions::UnknownVersion,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RenderError {
    /// Reason why the delivery ends. Absent if the error is temporary: the delivery is tried again.
    pub(super) dead_reason: Option<DeadReason>,
    /// Message for the delivery's history.
    pub(super) error: String,
}

impl RenderError {
    pub(super) fn temporary(error: impl Into<String>) -> Self {
        Self { dead_reason: None, error: error.into() }
    }

    pub(super) fn no_payload(error: impl Into<String>) -> Self {
        Self { dead_reason: Some(DeadReason::SerialisationFailed), error: error.into() }
    }
}

impl From<SerialisationError> for RenderError {
    fn from(failed: SerialisationError) -> Self {
        Self::no_payload(failed.to_string())
    }
}

impl From<UnknownVersion> for RenderError {
    fn from(failed: UnknownVersion) -> Self {
        Self::no_payload(failed.to_string())
    }
}

impl From<SigningError> for RenderError {
    fn from(failed: SigningError) -> Self {
        Self { dead_reason: Some(DeadReason::SigningFailed), error: failed.to_string() }
    }
}
