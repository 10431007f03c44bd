//! Inspections of endpoints: requested by people, run by the engine one after the other.

use super::{
    Reply, Store,
    deliveries::InspectionRequested,
    queries::{Cursor, Page},
    sql::inspections,
};
use crate::domain::{
    id::{AppId, EndpointId, InspectionId},
    inspection::{Inspection, InspectionReport},
    time::Timestamp,
};

impl Store {
    /// Stores an inspection that waits, unless its endpoint has one that waits or runs. The engine is notified after the
    /// commit, whether or not the caller is still there.
    pub fn request_inspection(&self, inspection: Inspection) -> Reply<InspectionRequested> {
        self.backend.write_then(
            move |tx| inspections::request(tx, &inspection),
            |requested, after| after.inspections_wait |= *requested == InspectionRequested::Waiting,
        )
    }

    /// Marks the oldest waiting inspection as running and returns it, passing over apps that have `per_app_max` running.
    pub fn start_next_inspection(&self, per_app_max: u32) -> Reply<Option<Inspection>> {
        self.backend.write(move |tx| inspections::start_next(tx, per_app_max))
    }

    /// Ends a running inspection, as interrupted if there is no report, and deletes the oldest ended ones of its endpoint
    /// beyond the number that is kept. `false` if it is not running any more: then nothing is changed.
    pub fn finish_inspection(
        &self,
        inspection: InspectionId,
        report: Option<InspectionReport>,
        now: Timestamp,
    ) -> Reply<bool> {
        self.backend.write(move |tx| inspections::finish(tx, inspection, report.as_ref(), now))
    }

    /// The inspections of an endpoint, newest first.
    pub fn inspections(
        &self,
        endpoint: EndpointId,
        after: Option<Cursor>,
        limit: u32,
    ) -> Reply<Page<Inspection>> {
        self.backend.read(move |connection| inspections::of_endpoint(connection, endpoint, after, limit))
    }

    /// Returns an inspection of the app.
    pub fn inspection(&self, app: AppId, inspection: InspectionId) -> Reply<Option<Inspection>> {
        self.backend.read(move |connection| inspections::one(connection, app, inspection))
    }
}
