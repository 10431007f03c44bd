//! Applies the event-type catalogue's rules to events before they are accepted, and to subscriptions.
//!
//! Types without rules cost one lookup. Small payloads with an enforced schema are checked inline for at most 1 ms; larger or
//! slower ones on a separate thread, one batch at a time per app.

use super::PublishRequest;
use crate::{
    domain::{id::AppId, subscription::check_event_type},
    functions::{Catalogue, EventType, PublishRuleError},
    service::{Error, Service},
};
use bytes::Bytes;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// Largest data of one request that is checked inline, and for how long: about the cost of the rest of a publish.
const INLINE_CHECK_BYTES_MAX: usize = 16 * 1024;
const INLINE_CHECK_TIME_MAX: Duration = Duration::from_millis(1);
/// Time limits of one event's check and of a batch: less than a producer waits for the answer.
const EVENT_CHECK_TIME_MAX: Duration = Duration::from_secs(1);
const BATCH_CHECK_TIME_MAX: Duration = Duration::from_secs(8);
/// Unknown types of a batch for which the nearest known name is searched.
const SUGGESTIONS_MAX: usize = 8;

/// An event whose data must match its type's schema.
struct SchemaCheck {
    /// Index in the batch.
    index: usize,
    event_type: Arc<EventType>,
    data: Bytes,
}

impl SchemaCheck {
    fn run(&self, until: Instant) -> Result<(), PublishRuleError> {
        self.event_type.validate(&self.data, move || Instant::now() < until)
    }
}

impl Service {
    pub(super) async fn check_rules(&self, app: AppId, publish: &PublishRequest<'_>) -> Result<(), Error> {
        let ruling = self.check_type(&self.config_cache.catalogue(), publish.event_type, true);
        match ruling {
            Ok(None) => Ok(()),
            Ok(Some(event_type)) => {
                let check = SchemaCheck { index: 0, event_type, data: publish.data.clone() };
                let broken = self.check_all(app, vec![check]).await.pop();
                broken.map_or(Ok(()), |(_, error)| Err(error))
            }
            Err(broken) => Err(rule_error(broken)),
        }
    }

    /// Returns for each event of a batch the rule it violates, if any.
    pub(super) async fn broken_rules(
        &self,
        app: AppId,
        events: &[Result<PublishRequest<'_>, Error>],
    ) -> Vec<Option<Error>> {
        let mut broken: Vec<Option<Error>> = vec![None; events.len()];
        let (mut checks, mut suggestions) = (Vec::new(), 0);
        {
            let catalogue = self.config_cache.catalogue();
            for (index, publish) in events.iter().enumerate() {
                let Ok(publish) = publish else { continue };
                match self.check_type(&catalogue, publish.event_type, suggestions < SUGGESTIONS_MAX) {
                    Ok(None) => {}
                    Ok(Some(event_type)) => {
                        checks.push(SchemaCheck { index, event_type, data: publish.data.clone() });
                    }
                    Err(refused) => {
                        suggestions += usize::from(matches!(refused, PublishRuleError::Unknown { .. }));
                        broken[index] = Some(rule_error(refused));
                    }
                }
            }
        }
        for (index, error) in self.check_all(app, checks).await {
            broken[index] = Some(error);
        }
        broken
    }

    /// Checks the type's rules that need no data. Returns the type if its schema must be checked.
    fn check_type(
        &self,
        catalogue: &Catalogue,
        name: &str,
        with_hint: bool,
    ) -> Result<Option<Arc<EventType>>, PublishRuleError> {
        let Some(known) = catalogue.get(name) else {
            if !self.limits.refuses_unknown_types {
                return Ok(None);
            }
            let nearest = if with_hint { catalogue.nearest(name) } else { None };
            return Err(PublishRuleError::Unknown {
                name: name.to_owned(),
                nearest: nearest.map(str::to_owned),
            });
        };
        known.check_not_archived()?;
        Ok(known.is_enforced().then(|| known.clone()))
    }

    /// Checks data against schemas. Returns the index of each event that fails, with the error.
    async fn check_all(&self, app: AppId, checks: Vec<SchemaCheck>) -> Vec<(usize, Error)> {
        let mut errors = Vec::new();
        let mut left = checks;
        if left.iter().map(|check| check.data.len()).sum::<usize>() <= INLINE_CHECK_BYTES_MAX {
            let until = Instant::now() + INLINE_CHECK_TIME_MAX;
            left.retain(|check| match check.run(until) {
                Ok(()) => false,
                Err(PublishRuleError::OutOfTime { .. }) => true,
                Err(broken) => {
                    errors.push((check.index, rule_error(broken)));
                    false
                }
            });
        }
        if left.is_empty() {
            return errors;
        }
        let places: Vec<usize> = left.iter().map(|check| check.index).collect();
        let work = move || {
            left.iter().map(time_limited_check(Instant::now() + BATCH_CHECK_TIME_MAX)).collect::<Vec<_>>()
        };
        match self.rule_pool.run(Some(app), "data", work).await {
            Ok(checked) => {
                let checked = places.into_iter().zip(checked);
                errors.extend(checked.filter_map(|(index, checked)| Some((index, checked.err()?))));
            }
            Err(error) => errors.extend(places.into_iter().map(|index| (index, error.clone()))),
        }
        errors
    }

    /// Refuses subscriptions to unknown exact types where unknown types cannot be published. Patterns may cover future types.
    pub(in crate::service) fn check_types_known(&self, event_types: &[String]) -> Result<(), Error> {
        let is_exact = |name: &str| !name.ends_with('*') && check_event_type(name).is_ok();
        let catalogue = self.config_cache.catalogue();
        for (index, name) in event_types.iter().enumerate().filter(|(_, name)| is_exact(name)) {
            if let Err(broken @ PublishRuleError::Unknown { .. }) = self.check_type(&catalogue, name, true) {
                return Err(Error::RuleViolation { field: format!("event_types[{index}]"), broken });
            }
        }
        Ok(())
    }
}

/// Checks events one after the other, each with its own time limit. Those not started within the batch's limit get `Overloaded`
/// and can be published again.
fn time_limited_check(all_until: Instant) -> impl FnMut(&SchemaCheck) -> Result<(), Error> {
    move |check| {
        let begun = Instant::now();
        if begun >= all_until {
            return Err(Error::Overloaded);
        }
        check.run(all_until.min(begun + EVENT_CHECK_TIME_MAX)).map_err(rule_error)
    }
}

fn rule_error(broken: PublishRuleError) -> Error {
    let field = match broken {
        PublishRuleError::Unknown { .. } | PublishRuleError::Archived { .. } => "type",
        PublishRuleError::Mismatch { .. } | PublishRuleError::OutOfTime { .. } => "data",
    };
    Error::RuleViolation { field: field.to_owned(), broken }
}
