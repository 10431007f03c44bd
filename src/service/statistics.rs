//! Statistics of one app or of all: counters over time, per endpoint and per event type.

use super::{Caller, Error, Service};
use crate::{
    domain::{
        endpoint::Endpoint,
        id::{AppId, EndpointId},
        statistics::{Counters, TimeRange},
        time::Timestamp,
    },
    runtime::CachedApp,
    store::statistics::{Backlog, StatisticsSearch, StatisticsSubject},
};
use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    sync::Arc,
    time::Duration,
};

const STATISTICS_WINDOW_DEFAULT: Duration = Duration::from_hours(24);

#[derive(Clone, Debug, Default)]
pub struct StatisticsQuery {
    pub from: Option<Timestamp>,
    pub to: Option<Timestamp>,
    pub endpoint: Option<String>,
    pub event_type: Option<String>,
}

#[derive(Clone, Debug)]
pub struct StatisticsReport {
    pub span: TimeRange,
    pub totals: Counters,
    pub series: Vec<(Timestamp, Counters)>,
    /// Most failures first.
    pub endpoints: Vec<EndpointStatistics>,
    /// Busiest first.
    pub event_types: Vec<(String, Counters)>,
    pub backlog: Backlog,
}

#[derive(Clone, Debug)]
pub struct EndpointStatistics {
    /// The app's public id.
    pub app: String,
    pub endpoint: Arc<Endpoint>,
    pub is_in_trouble: bool,
    pub counters: Counters,
}

impl Service {
    /// Returns the statistics of all apps, for the operator.
    pub async fn statistics(
        &self,
        caller: Caller,
        query: StatisticsQuery,
    ) -> Result<StatisticsReport, Error> {
        Self::require_admin(caller)?;
        let mut endpoints = Vec::new();
        self.each_endpoint(|endpoint| endpoints.push((endpoint.record.app, endpoint.id())));
        self.statistics_where(None, endpoints, query).await
    }

    pub async fn statistics_of(
        &self,
        entry: &CachedApp,
        query: StatisticsQuery,
    ) -> Result<StatisticsReport, Error> {
        let app = entry.app().id;
        let endpoints = entry.endpoints().iter().map(|endpoint| (app, endpoint.id())).collect();
        self.statistics_where(Some(entry), endpoints, query).await
    }

    async fn statistics_where(
        &self,
        entry: Option<&CachedApp>,
        endpoints: Vec<(AppId, EndpointId)>,
        query: StatisticsQuery,
    ) -> Result<StatisticsReport, Error> {
        let now = self.clock.now();
        let to = query.to.map_or(now, |to| to.min(now));
        let a_day_before =
            Timestamp::from_millis(to.as_millis() - STATISTICS_WINDOW_DEFAULT.as_millis() as i64);
        let from = query.from.unwrap_or(a_day_before);
        if from >= to {
            return Err(Error::field("from", "must be before `to`, and before now"));
        }
        let of = match (entry, query.endpoint, query.event_type) {
            (Some(_), Some(_), Some(_)) => {
                let detail = "cannot be asked for together with `endpoint_id`";
                return Err(Error::field("event_type", detail));
            }
            (Some(entry), Some(uid), None) => {
                StatisticsSubject::Endpoint(Self::endpoint_of(entry, &uid)?.id())
            }
            (_, _, Some(name)) => StatisticsSubject::EventType(name),
            _ => StatisticsSubject::Everything,
        };
        let span = TimeRange::of(from, to, now);
        let app = entry.map(|entry| entry.app().id);
        let found =
            self.query_store.statistics(StatisticsSearch { app, subject: of, span, endpoints }).await?;
        let series = span.series(found.series);
        let mut totals = Counters::default();
        for (_, counters) in &series {
            totals.add(counters);
        }
        Ok(StatisticsReport {
            span,
            totals,
            series,
            endpoints: self.with_endpoints(found.endpoints).await?,
            event_types: found.event_types,
            backlog: found.backlog,
        })
    }

    /// Adds the endpoints to their counters; endpoints deleted meanwhile are left out.
    async fn with_endpoints(
        &self,
        counted: Vec<(EndpointId, Counters)>,
    ) -> Result<Vec<EndpointStatistics>, Error> {
        let mut in_trouble: HashMap<AppId, HashSet<EndpointId>> = HashMap::new();
        let mut shown = Vec::with_capacity(counted.len());
        for (id, counters) in counted {
            let Some(endpoint) = self.config_cache.endpoint(id) else { continue };
            let Some(entry) = self.config_cache.app_by_id(endpoint.record.app) else { continue };
            let app = entry.app();
            let known = match in_trouble.entry(app.id) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(vacant) => vacant.insert(self.endpoints_in_trouble(&entry).await?),
            };
            let is_in_trouble = known.contains(&id);
            shown.push(EndpointStatistics { app: app.uid.clone(), endpoint, is_in_trouble, counters });
        }
        Ok(shown)
    }
}
