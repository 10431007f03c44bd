//! Lists and details of deliveries and dead letters, and manual actions on one of them.

use super::{
    Caller, Error, Service,
    named_delivery::NamedDelivery,
    paging::{AttemptRow, Cursor, DeliveryRow, Page},
};
use crate::{
    domain::{
        audit::AuditAction,
        delivery::{Delivery, DeliveryState},
        id::{DeliveryId, EndpointId},
        time::Timestamp,
    },
    runtime::CachedApp,
    store::{
        deliveries::{ActionResult, DeliveryAction},
        queries::DeliveryListFilter,
    },
};

/// Newest attempts that are listed for one endpoint.
const RECENT_ATTEMPTS_MAX: usize = 50;

#[derive(Clone, Debug, Default)]
pub struct DeliveryQuery {
    pub states: Vec<DeliveryState>,
    pub endpoint: Option<String>,
    pub event: Option<String>,
    pub event_type: Option<String>,
    pub from: Option<Timestamp>,
    pub to: Option<Timestamp>,
    /// Lists only waiting deliveries, the next due first.
    pub by_due: bool,
}

/// Manual action on one delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestedAction {
    Retry,
    Replay,
    Cancel,
    Close,
}

impl RequestedAction {
    const fn audit_action(self) -> AuditAction {
        match self {
            Self::Retry => AuditAction::DeliveryRetried,
            Self::Replay => AuditAction::DeliveryReplayed,
            Self::Cancel => AuditAction::DeliveryCancelled,
            Self::Close => AuditAction::DeliveryClosed,
        }
    }
}

impl Service {
    pub async fn deliveries(
        &self,
        entry: &CachedApp,
        query: DeliveryQuery,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<NamedDelivery>, Error> {
        let app = entry.app();
        let nothing = Page { rows: Vec::new(), next: None };
        let endpoint = match &query.endpoint {
            None => None,
            Some(uid) => match find_endpoint(entry, uid) {
                None => return Ok(nothing),
                found => found,
            },
        };
        let event = match &query.event {
            None => None,
            Some(id) => match self.event(entry, id).await {
                Ok(event) => Some(event.id),
                Err(Error::NotFound(_)) => return Ok(nothing),
                Err(error) => return Err(error),
            },
        };
        let DeliveryQuery { states, event_type, from, to, by_due, .. } = query;
        let filter = DeliveryListFilter { states, endpoint, event, event_type, from, to };
        let page = if by_due {
            let all = entry.endpoints();
            let queues = all.iter().map(|one| one.id()).filter(|id| endpoint.is_none_or(|only| only == *id));
            let queues = queues.collect();
            let mut page = self.query_store.queue(queues, after, limit).await?;
            page.rows.retain(|listed| matches_filter(&filter, listed));
            page
        } else {
            self.query_store.deliveries(app.id, filter, after, limit).await?
        };
        Ok(Page { rows: self.with_names(page.rows).await?, next: page.next })
    }

    pub async fn delivery(
        &self,
        entry: &CachedApp,
        id: &str,
    ) -> Result<(NamedDelivery, Vec<AttemptRow>), Error> {
        let id = DeliveryId::parse(id).ok_or(Error::NotFound("delivery"))?;
        self.delivery_by_id(entry, id).await
    }

    pub async fn delivery_by_id(
        &self,
        entry: &CachedApp,
        id: DeliveryId,
    ) -> Result<(NamedDelivery, Vec<AttemptRow>), Error> {
        let found = self.query_store.delivery(entry.app().id, id).await?;
        let (listed, attempts) = found.ok_or(Error::NotFound("delivery"))?;
        let shown = self.with_names(vec![listed]).await?.pop().ok_or(Error::NotFound("delivery"))?;
        Ok((shown, attempts))
    }

    /// Lists the endpoint's newest attempts, newest first.
    pub async fn recent_attempts(
        &self,
        entry: &CachedApp,
        uid: &str,
    ) -> Result<Vec<(DeliveryId, AttemptRow)>, Error> {
        let endpoint = Self::endpoint_of(entry, uid)?;
        Ok(self.query_store.recent_attempts(entry.app().id, endpoint.id(), RECENT_ATTEMPTS_MAX).await?)
    }

    /// Explains in words why a delivery that is due is not sent yet.
    pub fn delay_reason(&self, delivery: &Delivery) -> Option<String> {
        self.permits.delay_reason(delivery, self.clock.now()).map(|pace| pace.message())
    }

    pub async fn dead_letters(
        &self,
        entry: &CachedApp,
        endpoint: Option<&str>,
        closed_too: bool,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<NamedDelivery>, Error> {
        let endpoint = match endpoint {
            None => None,
            Some(uid) => match find_endpoint(entry, uid) {
                None => return Ok(Page { rows: Vec::new(), next: None }),
                found => found,
            },
        };
        let page = self.query_store.dead_letters(entry.app().id, endpoint, closed_too, after, limit).await?;
        Ok(Page { rows: self.with_names(page.rows).await?, next: page.next })
    }

    /// Performs the action and returns the delivery as it is afterwards. Replaying a delivered one returns the new delivery.
    pub async fn act_on_delivery(
        &self,
        caller: Caller,
        entry: &CachedApp,
        id: &str,
        wish: RequestedAction,
    ) -> Result<NamedDelivery, Error> {
        let id = DeliveryId::parse(id).ok_or(Error::NotFound("delivery"))?;
        let now = self.clock.now();
        let ask = match wish {
            RequestedAction::Retry => DeliveryAction::Retry,
            RequestedAction::Replay => {
                let (shown, _) = self.delivery_by_id(entry, id).await?;
                if shown.delivery.state == DeliveryState::Delivered {
                    self.require_storage_space()?;
                }
                let endpoint = self.config_cache.endpoint(shown.delivery.endpoint);
                let give_up_after = endpoint.and_then(|endpoint| endpoint.contract.retry.give_up_after);
                DeliveryAction::Replay {
                    new_id: DeliveryId::from_i64(self.take_ids(now, 1)),
                    give_up_at: give_up_after.map(|age| now.plus(age)),
                }
            }
            RequestedAction::Cancel => DeliveryAction::Cancel,
            RequestedAction::Close => DeliveryAction::Close,
        };
        let app = entry.app();
        let noted = self.audit_entry_in(caller, &app, wish.audit_action(), id.to_string(), None);
        match self.delivery_store.act(app.id, id, ask, now, Some(noted)).await? {
            ActionResult::Done(delivery) | ActionResult::Made(delivery) => {
                let (mut shown, _) = self.delivery_by_id(entry, delivery.id).await?;
                // The delivery may have changed since; the answer shows the result of the action.
                shown.delivery = delivery;
                Ok(shown)
            }
            ActionResult::Refused(refusal) => Err(refusal.into()),
            ActionResult::Deleted | ActionResult::Absent => Err(Error::NotFound("delivery")),
        }
    }

    /// Performs the action as `ask` does, but only on a dead delivery.
    pub async fn act_on_dead_letter(
        &self,
        caller: Caller,
        entry: &CachedApp,
        id: &str,
        wish: RequestedAction,
    ) -> Result<NamedDelivery, Error> {
        let (shown, _) = self.delivery(entry, id).await.map_err(|error| match error {
            Error::NotFound(_) => Error::NotFound("dead letter"),
            other => other,
        })?;
        if shown.delivery.state != DeliveryState::Dead {
            return Err(Error::NotFound("dead letter"));
        }
        self.act_on_delivery(caller, entry, id, wish).await
    }

    /// Deletes a terminal delivery together with its history; other states are refused.
    pub async fn delete_delivery(&self, caller: Caller, entry: &CachedApp, id: &str) -> Result<(), Error> {
        let id = DeliveryId::parse(id).ok_or(Error::NotFound("delivery"))?;
        let app = entry.app();
        let noted = self.audit_entry_in(caller, &app, AuditAction::DeliveryDeleted, id.to_string(), None);
        match self
            .delivery_store
            .act(app.id, id, DeliveryAction::Delete, self.clock.now(), Some(noted))
            .await?
        {
            ActionResult::Refused(refusal) => Err(refusal.into()),
            ActionResult::Absent => Err(Error::NotFound("delivery")),
            ActionResult::Deleted | ActionResult::Done(_) | ActionResult::Made(_) => Ok(()),
        }
    }
}

/// Finds an endpoint of the app by its public id, or a deleted one by its internal id.
fn find_endpoint(entry: &CachedApp, uid: &str) -> Option<EndpointId> {
    entry.endpoint(uid).map(|endpoint| endpoint.id()).or_else(|| EndpointId::parse(uid))
}

/// Applies the filters that the store's queue listing cannot apply itself.
fn matches_filter(filter: &DeliveryListFilter, listed: &DeliveryRow) -> bool {
    let DeliveryRow { delivery, event, .. } = listed;
    let made_at = crate::domain::id::made_at(delivery.id.as_i64());
    (filter.states.is_empty() || filter.states.contains(&delivery.state))
        && filter.event.is_none_or(|id| delivery.event == id)
        && filter.event_type.as_ref().is_none_or(|event_type| event.event_type == *event_type)
        && filter.from.is_none_or(|from| made_at >= from)
        && filter.to.is_none_or(|to| made_at < to)
}
