//! Errors of the service. The API maps each variant to one status code.

use crate::{
    domain::{
        delivery::TransitionError, field_error::FieldError, quota::QuotaExceeded, storage::StorageFull,
    },
    functions::PublishRuleError,
    store::StoreError,
};

#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// Absent, or hidden from the caller; the two look alike.
    #[error("There is no such {0}.")]
    NotFound(&'static str),
    /// Belongs to the caller, but only an admin key may do or set it.
    #[error("{detail}")]
    Forbidden { detail: String, field: Option<String> },
    #[error("{0}")]
    Field(FieldError),
    /// All errors of a list.
    #[error("{}", summary(.0))]
    Fields(Vec<FieldError>),
    /// Event or subscription that violates the operator's rules for event types.
    #[error("{field}: {broken}")]
    RuleViolation { field: String, broken: PublishRuleError },
    #[error("The id \"{0}\" is in use.")]
    IdTaken(String),
    /// The delivery's state does not allow the action.
    #[error("{0}")]
    Refused(TransitionError),
    #[error("Something else was published under this id or Idempotency-Key, as event {event}.")]
    PublishedBefore { event: String },
    #[error("{0}")]
    Conflict(String),
    #[error("Too much is waiting to be stored; try again shortly.")]
    Overloaded,
    #[error(
        "The app's quota is used up: {} is {}; try again in {} s.",
        .0.limit.name(), .0.per_second, .0.retry_after_seconds()
    )]
    QuotaExceeded(QuotaExceeded),
    /// Storage limit reached: no more events are accepted.
    #[error("{0}")]
    Full(StorageFull),
    /// The maximum number of streams is open.
    #[error("{0}")]
    TooManyStreams(String),
    #[error("{0}")]
    Unavailable(String),
    /// Internal error. The text is for the log, not for the caller.
    #[error("{0}")]
    Internal(String),
}

impl Error {
    pub(super) fn forbidden(detail: impl Into<String>) -> Self {
        Self::Forbidden { detail: detail.into(), field: None }
    }

    pub(super) fn field(field: &str, message: impl std::fmt::Display) -> Self {
        Self::Field(FieldError::new(field, message))
    }
}

fn summary(errors: &[FieldError]) -> String {
    match errors {
        [] => String::new(),
        [only] => only.to_string(),
        [first, rest @ ..] => format!("{first} (and {} more)", rest.len()),
    }
}

impl From<FieldError> for Error {
    fn from(error: FieldError) -> Self {
        Self::Field(error)
    }
}

impl From<TransitionError> for Error {
    fn from(refusal: TransitionError) -> Self {
        Self::Refused(refusal)
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Overloaded => Self::Overloaded,
            StoreError::Unavailable(_) => Self::Unavailable("The store cannot write at the moment.".into()),
            StoreError::Closed => Self::Unavailable("This node is stopping.".into()),
            StoreError::Corrupt(row) => Self::Internal(format!("the store is damaged: {row}")),
        }
    }
}
