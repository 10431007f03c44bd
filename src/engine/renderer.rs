//! Makes the payload that an endpoint gets: the data as published, or the version that the endpoint is pinned to, made
//! once per event and version by the type's function.
//!
//! Functions run on threads of their own, a few at once and of each function one. A run that takes long goes on aside, in
//! the only place for such runs, so that an endless one keeps neither its own function nor any other from its turn.

use super::{fault::Fault, trial::Trial, turn::Turn};
use crate::domain::{
    body,
    contract::RenderingRule,
    directory::Directory,
    endpoint::Endpoint,
    event::{Converted, Event, Payload, TEST_EVENT_TYPE},
    event_type::{PayloadVersion, Pinned},
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout, timeout_at},
};

/// How long a delivery waits for its turn before it goes back and makes room for others.
const TURN_WITHIN: Duration = Duration::from_secs(1);
/// A function takes a fraction of a millisecond; what takes this long goes on aside.
const QUICK: Duration = Duration::from_millis(100);
const QUICK_AT_ONCE: usize = 3;
const SLOW_AT_ONCE: usize = 1;

/// An event type and a version.
type FunctionName = (String, Arc<str>);

pub struct Renderer {
    quick: Arc<Semaphore>,
    slow: Arc<Semaphore>,
    /// One that nobody holds is forgotten when there are many.
    turns: Mutex<HashMap<FunctionName, Arc<Turn>>>,
}

impl Default for Renderer {
    fn default() -> Self {
        Self {
            quick: Arc::new(Semaphore::new(QUICK_AT_ONCE)),
            slow: Arc::new(Semaphore::new(SLOW_AT_ONCE)),
            turns: Mutex::default(),
        }
    }
}

impl Renderer {
    /// Costs an endpoint that is not pinned a look at its contract, and a look-up if the contract tells the version.
    pub(super) async fn payload(
        &self,
        directory: &Directory,
        event: &Event,
        endpoint: &Endpoint,
    ) -> Result<Payload, Fault> {
        let Some(pinned) = &endpoint.record.settings.payload_version else {
            let is_named = body::names_version(&endpoint.contract);
            let newest = || directory.catalogue().newest(&event.event_type).cloned();
            return Ok(Payload { converted: None, version: is_named.then(newest).flatten() });
        };
        let as_published = |version: Arc<str>| Payload { converted: None, version: Some(version) };
        // What was erased has no version; its body says so.
        if event.event_type == TEST_EVENT_TYPE || event.data.is_empty() {
            return Ok(as_published(pinned.as_str().into()));
        }
        let version = match directory.catalogue().pinned(&event.event_type, pinned)? {
            Pinned::AsPublished(version) => return Ok(as_published(version)),
            Pinned::Converted(version) => version,
        };
        let converted = match event.bodies.converted(&version) {
            Some(converted) => converted,
            None => self.convert(event, &version, endpoint.contract.rendering).await?,
        };
        match converted {
            Ok(data) => Ok(Payload { converted: Some(data), version: Some(version.name.clone()) }),
            Err(why) => {
                let about = format!("payload version {pinned} of {}: {why}", event.event_type);
                Err(Fault::no_payload(about))
            }
        }
    }

    async fn convert(
        &self,
        event: &Event,
        version: &Arc<PayloadVersion>,
        rule: RenderingRule,
    ) -> Result<Converted, Fault> {
        let busy = || {
            let name = &version.name;
            let error =
                format!("payload version {name} of {} is being made for another event", event.event_type);
            Fault::passing(error)
        };
        let turn = self.turn(&event.event_type, &version.name);
        let until = Instant::now() + TURN_WITHIN;
        let place = turn.take(until).await.ok_or_else(busy)?;
        // Whoever had the turn before may have made it for the same event.
        if let Some(converted) = event.bodies.converted(version) {
            return Ok(converted);
        }
        let begin = || Trial::begin(version.clone(), event.data.clone(), rule);
        let aside = || self.slow.clone().try_acquire_owned().map_err(|_| busy());
        let converted = if turn.is_known_as_long(event.id) {
            drop(place);
            let slow = aside()?;
            begin().end_aside(slow).await
        } else {
            let quick = timeout_at(until, self.quick.clone().acquire_owned()).await;
            let quick = quick.ok().and_then(Result::ok).ok_or_else(busy)?;
            let mut trial = begin();
            let ended = timeout(QUICK, trial.end()).await.ok();
            turn.note(event.id, ended.is_some());
            if let Some(converted) = ended {
                converted
            } else {
                // Without a place aside it is stopped here, and comes back later.
                let slow = aside()?;
                drop((place, quick));
                trial.end_aside(slow).await
            }
        };
        event.bodies.keep_converted(version.clone(), converted.clone());
        Ok(converted)
    }

    fn turn(&self, event_type: &str, version: &Arc<str>) -> Arc<Turn> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if turns.len() == turns.capacity() {
            turns.retain(|_, turn| Arc::strong_count(turn) > 1 || turn.is_long());
        }
        turns.entry((event_type.to_owned(), version.clone())).or_default().clone()
    }
}
