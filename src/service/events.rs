//! Events: lists, details with deliveries, and erasing of payloads.

use super::{
    Caller, Error, Service,
    named_delivery::NamedDelivery,
    paging::{Cursor, Page, internal_event_id},
};
use crate::{
    domain::{audit::AuditAction, event::Event, time::Timestamp},
    runtime::CachedApp,
    store::queries::EventFilter,
};

#[derive(Clone, Debug, Default)]
pub struct EventQuery {
    pub event_type: Option<String>,
    pub from: Option<Timestamp>,
    pub to: Option<Timestamp>,
}

impl Service {
    pub async fn events(
        &self,
        entry: &CachedApp,
        query: EventQuery,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<Event>, Error> {
        let EventQuery { event_type, from, to } = query;
        let filter = EventFilter { event_type, from, to };
        Ok(self.query_store.events(entry.app().id, filter, after, limit).await?)
    }

    /// Finds an event by the producer's id or the internal one.
    pub async fn event(&self, entry: &CachedApp, id: &str) -> Result<Event, Error> {
        let app = entry.app();
        let found = self.query_store.find_event(app.id, id.to_owned(), internal_event_id(&app, id)).await?;
        found.ok_or(Error::NotFound("event"))
    }

    pub async fn event_with_deliveries(
        &self,
        entry: &CachedApp,
        id: &str,
    ) -> Result<(Event, Vec<NamedDelivery>), Error> {
        let event = self.event(entry, id).await?;
        let listed = self.query_store.deliveries_of(event.id).await?;
        Ok((event, self.with_names(listed).await?))
    }

    /// Erases the payload and keeps the record. Deliveries that still wait have no data to send any more.
    pub async fn erase_data(&self, caller: Caller, entry: &CachedApp, id: &str) -> Result<(), Error> {
        let event = self.event(entry, id).await?;
        let noted = self.audit_entry_in(caller, &entry.app(), AuditAction::EventErased, id, None);
        // False means that another call erased it first; the result is equal.
        self.delivery_store.erase_data(event.app, event.id, Some(noted)).await?;
        Ok(())
    }
}
