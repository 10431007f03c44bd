//! Accepts events from the inbox with the checks, rules and deliveries of HTTP publishing, but without quota: the producer has
//! already committed.

use super::{PublishRequest, validate::check_form};
use crate::{
    domain::json,
    runtime::CachedApp,
    service::{Error, Service},
    store::inbox::{InboxBatch, InboxEvent},
};
use std::sync::Arc;

impl Service {
    /// Adds the outcome of each submission of one app to `intake`. Stops at the first one that cannot be decided now, so that
    /// no later event overtakes it.
    pub(in crate::service) async fn build_submitted(
        &self,
        entry: &CachedApp,
        submissions: &[InboxEvent],
        intake: &mut InboxBatch,
    ) {
        let (app, endpoints) = (entry.app(), entry.endpoints());
        let examined: Vec<_> =
            submissions.iter().map(|submission| self.check_submitted(submission)).collect();
        let broken = self.broken_rules(app.id, &examined).await;
        for ((submission, publish), broken) in submissions.iter().zip(examined).zip(broken) {
            let known = match (publish, broken) {
                (Ok(publish), None) => {
                    let mut new = self.build_event(&app, &endpoints, publish).new_event;
                    if let Some(event) = Arc::get_mut(&mut new.event) {
                        // The fingerprint stays without this time: it covers only what the producer gave.
                        event.created_at = submission.at;
                    }
                    intake.events.push((submission.number, new));
                    continue;
                }
                (Ok(publish), Some(broken)) => self.repeat_or_refuse(&app, &publish, broken).await,
                (Err(error), _) => Err(error),
            };
            match known {
                Ok(_) => intake.removed.push(submission.number),
                Err(error) if is_permanent(&error) => {
                    intake.refused.push((submission.number, error.to_string()));
                }
                Err(_) => return,
            }
        }
    }

    fn check_submitted<'a>(&self, submission: &'a InboxEvent) -> Result<PublishRequest<'a>, Error> {
        let publish = PublishRequest {
            id: Some(&submission.id),
            event_type: &submission.event_type,
            data: submission.data.clone(),
            created_at: None,
            key: submission.key.as_deref(),
            deliver_at: None,
            idempotency_key: None,
        };
        check_form(&publish, self.clock.now())?;
        if json::is_too_deep(&publish.data) {
            return Err(Error::field("data", "is nested deeper than 128"));
        }
        Ok(publish)
    }
}

/// Whether a later attempt would give the same error.
fn is_permanent(error: &Error) -> bool {
    matches!(error, Error::Field(_) | Error::RuleViolation { .. } | Error::PublishedBefore { .. })
}
