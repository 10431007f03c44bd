//! Delivery status of an event in the words of its contract: one for the event, and one for each delivery.

use super::{Error, Service, named_delivery::NamedDelivery};
use crate::{
    domain::{
        delivery::{Delivery, DeliveryState, EndReason},
        event::Event,
        id::DeliveryId,
        time::Timestamp,
    },
    runtime::CachedApp,
};
use std::cmp::Reverse;

/// Reason of an event without deliveries: no endpoint that accepts events subscribes to its type.
pub const NO_ENDPOINT: &str = "no_endpoint_subscribes";

/// Status of an event whose deliveries were all deleted by hand: how they ended is unknown.
const DELIVERIES_DELETED_STATUS: &str = "deleted";
const DELIVERIES_DELETED: &str = "deliveries_deleted";

#[derive(Debug)]
pub struct EventStatus {
    pub event: Event,
    /// Status of the worst delivery: unfinished before finished; replays of a delivered delivery do not count.
    pub status: String,
    pub reason: Option<&'static str>,
    pub next_retry_at: Option<Timestamp>,
    pub last_error: Option<String>,
    /// Sum of the numbered attempts of all deliveries.
    pub attempts: u32,
    /// Whether the worst delivery that counts was delivered.
    pub delivered: bool,
    /// End of the last delivery, if all have ended.
    pub completed_at: Option<Timestamp>,
    pub deliveries: Vec<NamedDelivery>,
}

impl Service {
    pub async fn event_status(&self, entry: &CachedApp, id: &str) -> Result<EventStatus, Error> {
        let (event, deliveries) = self.event_with_deliveries(entry, id).await?;
        let app = entry.app();
        let attempts = deliveries.iter().map(|shown| shown.delivery.attempt_count).sum();
        let ends: Option<Vec<Timestamp>> = deliveries.iter().map(|one| one.delivery.finished_at).collect();
        let completed_at = ends.and_then(|ends| ends.into_iter().max());
        let Some(worst) = worst_delivery(&deliveries) else {
            let (status, reason) = if event.has_no_subscribers {
                (self.contract_of_app(&app)?.contract.states.skipped.clone(), NO_ENDPOINT)
            } else {
                (DELIVERIES_DELETED_STATUS.to_owned(), DELIVERIES_DELETED)
            };
            return Ok(EventStatus {
                event,
                status,
                reason: Some(reason),
                next_retry_at: None,
                last_error: None,
                attempts,
                delivered: false,
                completed_at,
                deliveries,
            });
        };
        Ok(EventStatus {
            status: worst.contract_status().to_owned(),
            reason: worst.delivery.reason.map(EndReason::name),
            next_retry_at: worst.delivery.next_attempt_at(),
            last_error: worst.last_error(),
            attempts,
            delivered: worst.delivery.state == DeliveryState::Delivered,
            completed_at,
            event,
            deliveries,
        })
    }
}

/// Returns the worst delivery; among equals the one with the next attempt first. Replays of a delivered delivery that ended
/// undelivered do not count.
fn worst_delivery(deliveries: &[NamedDelivery]) -> Option<&NamedDelivery> {
    let arrived = |root: DeliveryId| {
        deliveries
            .iter()
            .any(|one| one.delivery.root == root && one.delivery.state == DeliveryState::Delivered)
    };
    let is_moot = |one: &Delivery| {
        one.state.is_terminal()
            && one.state != DeliveryState::Delivered
            && one.replay_of.is_some()
            && arrived(one.root)
    };
    deliveries.iter().filter(|shown| !is_moot(&shown.delivery)).max_by_key(|shown| {
        let delivery = &shown.delivery;
        (delivery.state.severity(), delivery.next_attempt_at().map(Reverse), Reverse(delivery.id))
    })
}
