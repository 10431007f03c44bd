//! Inspections and pings: requested and listed here, run by the engine.

use super::{
    Error, Service,
    paging::{Cursor, Page},
};
use crate::{
    domain::{
        id::InspectionId,
        inspection::{IDS_PER_INSPECTION, Inspection, InspectionKind, InspectionState},
    },
    runtime::CachedApp,
    store::deliveries::InspectionRequested,
};

/// An inspection with the public id of its endpoint.
#[derive(Clone, Debug)]
pub struct NamedInspection {
    pub inspection: Inspection,
    pub endpoint: String,
}

impl Service {
    /// Requests an inspection, which the engine will run. Works for a disabled endpoint too.
    pub async fn inspect(
        &self,
        entry: &CachedApp,
        uid: &str,
        kind: InspectionKind,
    ) -> Result<NamedInspection, Error> {
        self.require_accepting()?;
        let endpoint = Self::endpoint_of(entry, uid)?;
        if kind == InspectionKind::Ping && endpoint.health_url.is_none() {
            return Err(Error::field("health_url", "is not set on this endpoint: there is nothing to ping"));
        }
        let now = self.clock.now();
        let inspection = Inspection {
            id: InspectionId::from_i64(self.take_ids(now, IDS_PER_INSPECTION)),
            app: entry.app().id,
            endpoint: endpoint.id(),
            kind,
            state: InspectionState::Waiting,
            created_at: now,
            finished_at: None,
            report: None,
        };
        match self.delivery_store.request_inspection(inspection.clone()).await? {
            InspectionRequested::Waiting => {
                Ok(NamedInspection { inspection, endpoint: endpoint.record.uid.clone() })
            }
            InspectionRequested::Busy(other) => {
                Err(Error::Conflict(format!("This endpoint is being inspected already, by {other}.")))
            }
            InspectionRequested::NoEndpoint => Err(Error::NotFound("endpoint")),
        }
    }

    /// Lists the endpoint's stored inspections, newest first.
    pub async fn inspections(
        &self,
        entry: &CachedApp,
        uid: &str,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<NamedInspection>, Error> {
        let endpoint = Self::endpoint_of(entry, uid)?;
        let page = self.query_store.inspections(endpoint.id(), after, limit).await?;
        let shown = |inspection| NamedInspection { inspection, endpoint: endpoint.record.uid.clone() };
        Ok(Page { rows: page.rows.into_iter().map(shown).collect(), next: page.next })
    }

    /// Returns an inspection, also of a deleted endpoint.
    pub async fn inspection(&self, entry: &CachedApp, id: &str) -> Result<NamedInspection, Error> {
        let none = || Error::NotFound("inspection");
        let id = InspectionId::parse(id).ok_or_else(none)?;
        let inspection = self.query_store.inspection(entry.app().id, id).await?.ok_or_else(none)?;
        let mut names = self.endpoint_names(std::iter::once(inspection.endpoint)).await?;
        let endpoint = names.remove(&inspection.endpoint).map(|name| name.uid).unwrap_or_default();
        Ok(NamedInspection { inspection, endpoint })
    }
}
