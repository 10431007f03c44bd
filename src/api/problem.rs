//! Errors as `application/problem+json`: a stable `code`, a title, a detail for people, and the field where it applies.
//!
//! Only this file maps errors to status codes.

use super::response;
use crate::{domain::field_error::FieldError, functions::PublishRuleError, service};
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde::Serialize;

/// Stable error codes that callers can rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorCode {
    Malformed,
    InvalidCursor,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    Timeout,
    Conflict,
    IdTaken,
    PublishedBefore,
    WrongState,
    TooLarge,
    UnsupportedEncoding,
    Invalid,
    UnknownField,
    UnknownEventType,
    EventTypeArchived,
    SchemaMismatch,
    Overloaded,
    QuotaExceeded,
    TooManyStreams,
    Full,
    Internal,
    Unavailable,
}

impl ErrorCode {
    pub(super) const ALL: [Self; 24] = [
        Self::Malformed,
        Self::InvalidCursor,
        Self::Unauthorized,
        Self::Forbidden,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::Timeout,
        Self::Conflict,
        Self::IdTaken,
        Self::PublishedBefore,
        Self::WrongState,
        Self::TooLarge,
        Self::UnsupportedEncoding,
        Self::Invalid,
        Self::UnknownField,
        Self::UnknownEventType,
        Self::EventTypeArchived,
        Self::SchemaMismatch,
        Self::Overloaded,
        Self::QuotaExceeded,
        Self::TooManyStreams,
        Self::Full,
        Self::Internal,
        Self::Unavailable,
    ];

    const fn row(self) -> (&'static str, StatusCode, &'static str) {
        match self {
            Self::Malformed => ("malformed", StatusCode::BAD_REQUEST, "The request cannot be read"),
            Self::InvalidCursor => {
                ("invalid_cursor", StatusCode::BAD_REQUEST, "The cursor is not of this list")
            }
            Self::Unauthorized => ("unauthorized", StatusCode::UNAUTHORIZED, "A valid key is needed"),
            Self::Forbidden => ("forbidden", StatusCode::FORBIDDEN, "This key may not do that"),
            Self::NotFound => ("not_found", StatusCode::NOT_FOUND, "There is no such thing"),
            Self::MethodNotAllowed => {
                ("method_not_allowed", StatusCode::METHOD_NOT_ALLOWED, "The path has no such method")
            }
            Self::Timeout => ("timeout", StatusCode::REQUEST_TIMEOUT, "The request took too long to arrive"),
            Self::Conflict => ("conflict", StatusCode::CONFLICT, "This cannot be done as things are"),
            Self::IdTaken => ("id_taken", StatusCode::CONFLICT, "The id is in use"),
            Self::PublishedBefore => (
                "published_before",
                StatusCode::CONFLICT,
                "Something else was published under this id or key",
            ),
            Self::WrongState => {
                ("wrong_state", StatusCode::CONFLICT, "The state of the delivery does not allow this")
            }
            Self::TooLarge => ("too_large", StatusCode::PAYLOAD_TOO_LARGE, "The body is too large"),
            Self::UnsupportedEncoding => (
                "unsupported_encoding",
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "The body must not be compressed",
            ),
            Self::Invalid => ("invalid", StatusCode::UNPROCESSABLE_ENTITY, "A field is not as it must be"),
            Self::UnknownField => {
                ("unknown_field", StatusCode::UNPROCESSABLE_ENTITY, "There is no such field")
            }
            Self::UnknownEventType => (
                "unknown_event_type",
                StatusCode::UNPROCESSABLE_ENTITY,
                "The event type is not in the catalogue",
            ),
            Self::EventTypeArchived => {
                ("event_type_archived", StatusCode::UNPROCESSABLE_ENTITY, "The event type is archived")
            }
            Self::SchemaMismatch => (
                "schema_mismatch",
                StatusCode::UNPROCESSABLE_ENTITY,
                "The data does not fit its type's schema",
            ),
            Self::Overloaded => ("overloaded", StatusCode::TOO_MANY_REQUESTS, "Too much is waiting"),
            Self::QuotaExceeded => {
                ("quota_exceeded", StatusCode::TOO_MANY_REQUESTS, "The app's quota is used up")
            }
            Self::TooManyStreams => {
                ("too_many_streams", StatusCode::TOO_MANY_REQUESTS, "Too many streams are open")
            }
            Self::Full => {
                ("storage_full", StatusCode::INSUFFICIENT_STORAGE, "There is no room for more events")
            }
            Self::Internal => ("internal", StatusCode::INTERNAL_SERVER_ERROR, "A fault of ours"),
            Self::Unavailable => ("unavailable", StatusCode::SERVICE_UNAVAILABLE, "Not at the moment"),
        }
    }

    pub(super) const fn name(self) -> &'static str {
        self.row().0
    }

    pub(super) const fn status(self) -> StatusCode {
        self.row().1
    }

    pub(super) const fn title(self) -> &'static str {
        self.row().2
    }
}

/// An error answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    code: ErrorCode,
    detail: String,
    field: Option<String>,
    /// Seconds until a retry is useful, where that is known.
    retry_after: Option<u64>,
    /// All errors, where there can be several.
    errors: Vec<FieldError>,
}

/// Why a request was refused. `code` is stable, the texts are for people.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Problem, example = json!({
    "code": "invalid", "title": "A field is not as it must be", "status": 422,
    "detail": "url: must start with https://", "field": "url",
}))]
pub(super) struct ProblemView {
    pub code: &'static str,
    pub title: &'static str,
    pub status: u16,
    pub detail: String,
    /// The field of the body, the parameter or the header that is wrong, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub field: Option<String>,
    /// Seconds after which it is worth trying again, with `quota_exceeded`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub retry_after: Option<u64>,
    /// Everything that is wrong with a list, each by its field; the first is the one above.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub errors: Vec<FieldErrorView>,
}

/// One thing that is wrong.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = FieldProblem)]
pub(super) struct FieldErrorView {
    pub field: String,
    pub detail: String,
}

impl Problem {
    pub(super) fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), field: None, retry_after: None, errors: Vec::new() }
    }

    pub(super) fn at(code: ErrorCode, field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { field: Some(field.into()), ..Self::new(code, detail) }
    }

    /// Error for a value that a field or parameter does not allow.
    pub(super) fn invalid(field: &str, message: &str) -> Self {
        Self::at(ErrorCode::Invalid, field, format!("{field}: {message}"))
    }

    #[cfg(test)]
    pub(super) const fn status(&self) -> StatusCode {
        self.code.status()
    }

    pub(super) fn view(self) -> ProblemView {
        let (code, status, title) = self.code.row();
        ProblemView {
            code,
            title,
            status: status.as_u16(),
            detail: self.detail,
            field: self.field,
            retry_after: self.retry_after,
            errors: self.errors.into_iter().map(FieldErrorView::of).collect(),
        }
    }
}

impl From<FieldError> for Problem {
    fn from(error: FieldError) -> Self {
        let code = if error.message.starts_with("there is no such field") {
            ErrorCode::UnknownField
        } else {
            ErrorCode::Invalid
        };
        Self::at(code, error.field.clone(), error.to_string())
    }
}

impl From<service::Error> for Problem {
    fn from(error: service::Error) -> Self {
        use service::Error;
        let detail = error.to_string();
        match error {
            Error::Field(error) => error.into(),
            Error::Fields(errors) => Self {
                field: errors.first().map(|first| first.field.clone()),
                errors,
                ..Self::new(ErrorCode::Invalid, detail)
            },
            Error::RuleViolation { field, broken } => Self::at(rule_error_code(&broken), field, detail),
            Error::Forbidden { field, .. } => Self { field, ..Self::new(ErrorCode::Forbidden, detail) },
            Error::Internal(cause) => {
                tracing::error!(cause, "a request failed with an internal error");
                Self::new(ErrorCode::Internal, "The cause is in the log.")
            }
            Error::NotFound(_) => Self::new(ErrorCode::NotFound, detail),
            Error::IdTaken(_) => Self::at(ErrorCode::IdTaken, "id", detail),
            Error::Refused(_) => Self::new(ErrorCode::WrongState, sentence(&detail)),
            Error::PublishedBefore { .. } => Self::new(ErrorCode::PublishedBefore, detail),
            Error::Conflict(_) => Self::new(ErrorCode::Conflict, detail),
            Error::Overloaded => Self::new(ErrorCode::Overloaded, detail),
            Error::QuotaExceeded(exceeded) => Self {
                retry_after: Some(exceeded.retry_after_seconds()),
                ..Self::new(ErrorCode::QuotaExceeded, detail)
            },
            Error::TooManyStreams(_) => Self::new(ErrorCode::TooManyStreams, detail),
            Error::Full(_) => Self::new(ErrorCode::Full, detail),
            Error::Unavailable(_) => Self::new(ErrorCode::Unavailable, detail),
        }
    }
}

impl FieldErrorView {
    fn of(error: FieldError) -> Self {
        Self { detail: error.to_string(), field: error.field }
    }
}

fn rule_error_code(broken: &PublishRuleError) -> ErrorCode {
    match broken {
        PublishRuleError::Unknown { .. } => ErrorCode::UnknownEventType,
        PublishRuleError::Archived { .. } => ErrorCode::EventTypeArchived,
        PublishRuleError::Mismatch { .. } | PublishRuleError::OutOfTime { .. } => ErrorCode::SchemaMismatch,
    }
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).chain(['.']).collect()
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (code, retry_after) = (self.code, self.retry_after);
        let body = serde_json::to_vec(&self.view()).unwrap_or_default();
        let mut response = response::bytes(code.status(), response::PROBLEM_JSON, body.into());
        let extra: Option<(HeaderName, &'static str)> = match code {
            ErrorCode::Unauthorized => Some((header::WWW_AUTHENTICATE, "Bearer realm=\"posthaste\"")),
            ErrorCode::Overloaded => Some((header::RETRY_AFTER, "1")),
            ErrorCode::Unavailable | ErrorCode::TooManyStreams => Some((header::RETRY_AFTER, "5")),
            ErrorCode::Full => Some((header::RETRY_AFTER, "60")),
            _ => None,
        };
        if let Some((name, value)) = extra {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        if let Some(seconds) = retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{
        delivery::{DeliveryState, TransitionError},
        storage::StorageFull,
    };

    #[test]
    fn every_service_error_has_its_status_code() {
        use service::Error;
        let cases = [
            (Error::NotFound("app"), 404, "not_found"),
            (Error::Forbidden { detail: String::new(), field: None }, 403, "forbidden"),
            (Error::Field(FieldError::new("url", "is odd")), 422, "invalid"),
            (Error::Field(FieldError::unknown("ulr", "ulr", ["url"].into_iter())), 422, "unknown_field"),
            (Error::IdTaken("a".into()), 409, "id_taken"),
            (Error::Refused(TransitionError::EndpointDeleted), 409, "wrong_state"),
            (Error::PublishedBefore { event: "evt_1".into() }, 409, "published_before"),
            (Error::Conflict(String::new()), 409, "conflict"),
            (Error::Overloaded, 429, "overloaded"),
            (Error::Full(StorageFull::Store { used_bytes: 1, store_bytes_max: 1 }), 507, "storage_full"),
            (Error::TooManyStreams(String::new()), 429, "too_many_streams"),
            (Error::Unavailable(String::new()), 503, "unavailable"),
            (Error::Internal("a secret of ours".into()), 500, "internal"),
        ];
        for (error, status, code) in cases {
            let view = Problem::from(error).view();
            assert_eq!((view.status, view.code), (status, code));
            assert!(!view.detail.contains("a secret of ours"));
        }
        let refused = TransitionError::WrongState { state: DeliveryState::InFlight, verb: "retried" };
        let view = Problem::from(Error::Refused(refused)).view();
        assert_eq!(view.detail, "A delivery that is in_flight cannot be retried.");
    }

    #[test]
    fn retryable_errors_have_retry_after_and_unauthorized_has_www_authenticate() {
        let header = |code, name| Problem::new(code, "").into_response().headers().get(name).cloned();
        assert!(header(ErrorCode::Overloaded, header::RETRY_AFTER).is_some());
        assert!(header(ErrorCode::Unavailable, header::RETRY_AFTER).is_some());
        assert!(header(ErrorCode::Unauthorized, header::WWW_AUTHENTICATE).is_some());
        assert!(header(ErrorCode::Invalid, header::RETRY_AFTER).is_none());
    }

    #[test]
    fn codes_are_distinct() {
        let mut names: Vec<_> = ErrorCode::ALL.iter().map(|code| code.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ErrorCode::ALL.len());
    }
}
