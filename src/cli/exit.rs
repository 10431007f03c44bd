//! Exit codes, the same for all commands, and the errors that carry one.

use crate::config::ConfigError;
use http::StatusCode;
use std::process::ExitCode;

/// Text for the help and the documentation.
pub(super) const EXIT_CODES_HELP: &str = "\
Exit codes:
  0  done
  1  failed: the server refused it, or what was waited for did not come (not delivered, gaps, cancelled)
  2  asked for what cannot be: usage, configuration, a question that nobody could answer
  3  not found
  4  not allowed: no key, a wrong one, or one that may not do this
  5  no answer, or not now (overloaded, over a quota, stopping): try again";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExitStatus {
    Failed = 1,
    Usage = 2,
    NotFound = 3,
    NotAllowed = 4,
    TryAgain = 5,
}

impl ExitStatus {
    /// Returns the exit code for the status of an unsuccessful answer.
    pub(super) fn of(status: u16) -> Self {
        match StatusCode::from_u16(status).unwrap_or_default() {
            StatusCode::NOT_FOUND => Self::NotFound,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Self::NotAllowed,
            StatusCode::REQUEST_TIMEOUT
            | StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
            | StatusCode::INSUFFICIENT_STORAGE => Self::TryAgain,
            _ => Self::Failed,
        }
    }

    /// Returns the exit code of an error, also of one that was given context on its way.
    pub(super) fn from_error(error: &anyhow::Error) -> Self {
        match error.downcast_ref::<CommandError>() {
            Some(failure) => failure.exit,
            None if matches!(error.downcast_ref(), Some(ConfigError::NoKey(_))) => Self::NotAllowed,
            None if error.is::<ConfigError>() => Self::Usage,
            None => Self::Failed,
        }
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(exit: ExitStatus) -> Self {
        Self::from(exit as u8)
    }
}

/// The reason why a command failed, with its exit code.
#[derive(Debug, thiserror::Error)]
#[error("{words}")]
pub(super) struct CommandError {
    pub exit: ExitStatus,
    words: String,
}

impl CommandError {
    pub(super) fn with_exit(exit: ExitStatus, words: impl Into<String>) -> anyhow::Error {
        Self { exit, words: words.into() }.into()
    }

    pub(super) fn usage(words: impl Into<String>) -> anyhow::Error {
        Self::with_exit(ExitStatus::Usage, words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn statuses_and_errors_have_their_codes_also_under_context() {
        let statuses = [401, 403, 404, 408, 409, 422, 429, 500, 502, 503, 507];
        let codes = statuses.map(|status| ExitStatus::of(status) as u8);
        assert_eq!(codes, [4, 4, 3, 5, 1, 1, 5, 1, 5, 5, 5]);
        let failure: anyhow::Result<()> = Err(CommandError::usage("no app"));
        assert_eq!(ExitStatus::from_error(&failure.context("publishing").unwrap_err()), ExitStatus::Usage);
        let refused = anyhow::Error::from(ConfigError::Refused(vec![]));
        assert_eq!(ExitStatus::from_error(&refused), ExitStatus::Usage);
        assert_eq!(ExitStatus::from_error(&anyhow::anyhow!("odd")), ExitStatus::Failed);
    }

    #[test]
    fn every_code_is_explained() {
        for code in 0..=ExitStatus::TryAgain as u8 {
            assert!(EXIT_CODES_HELP.contains(&format!("\n  {code}  ")), "{code}");
        }
    }
}
