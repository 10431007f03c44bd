//! Looking at events: lists, one with its deliveries, how it stands, and erasing what it carried.

use super::{
    Caller, Error, Service,
    deliveries::Shown,
    listing::{Cursor, Page, own_event_id},
};
use crate::{
    domain::{audit::Action, delivery::State, directory::AppEntry, event::Event, time::Timestamp},
    store::browse::EventFilter,
};

#[derive(Clone, Debug, Default)]
pub struct EventQuery {
    pub event_type: Option<String>,
    pub from: Option<Timestamp>,
    pub to: Option<Timestamp>,
}

/// How an event stands as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// No endpoint wanted it.
    Skipped,
    /// The worst state among its deliveries: unfinished before finished.
    Worst(State),
}

impl Standing {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Skipped => "skipped",
            Self::Worst(state) => state.name(),
        }
    }

    /// Whether every delivery arrived.
    pub fn is_delivered(self) -> bool {
        self == Self::Worst(State::Delivered)
    }

    pub fn of(deliveries: &[Shown]) -> Self {
        let states = deliveries.iter().map(|shown| shown.delivery.state);
        states.max_by_key(|state| state.badness()).map_or(Self::Skipped, Self::Worst)
    }
}

impl Service {
    pub async fn events(
        &self,
        entry: &AppEntry,
        query: EventQuery,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<Event>, Error> {
        let EventQuery { event_type, from, to } = query;
        let filter = EventFilter { event_type, from, to };
        Ok(self.browse.events(entry.app().id, filter, after, limit).await?)
    }

    /// By the producer's id or ours.
    pub async fn event(&self, entry: &AppEntry, id: &str) -> Result<Event, Error> {
        let app = entry.app();
        let found = self.browse.find_event(app.id, id.to_owned(), own_event_id(&app, id)).await?;
        found.ok_or(Error::NotFound("event"))
    }

    pub async fn event_with_deliveries(
        &self,
        entry: &AppEntry,
        id: &str,
    ) -> Result<(Event, Vec<Shown>), Error> {
        let event = self.event(entry, id).await?;
        let listed = self.browse.deliveries_of(event.id).await?;
        Ok((event, self.show(listed).await?))
    }

    /// Takes the payload away and keeps the record. Deliveries that still wait have nothing to send any more.
    pub async fn erase_data(&self, caller: Caller, entry: &AppEntry, id: &str) -> Result<(), Error> {
        let event = self.event(entry, id).await?;
        let noted = self.entry_in(caller, &entry.app(), Action::EventErased, id, None);
        if self.ledger.erase_data(event.app, event.id, noted).await? {
            Ok(())
        } else {
            Err(Error::NotFound("event"))
        }
    }
}
