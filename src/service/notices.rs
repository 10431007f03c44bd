//! Notices: lists and details, with public names.

use super::{
    Caller, Error, Service,
    paging::{Cursor, Page},
};
use crate::{
    domain::{
        id::{EndpointId, NoticeId},
        notice::{Digest, Notice, NoticeKind},
        time::Timestamp,
    },
    runtime::CachedApp,
    store::{config::EndpointLabel, notices::NoticeFilter},
};
use std::collections::HashMap;

#[derive(Clone, Debug, Default)]
pub struct NoticeQuery {
    pub app: Option<String>,
    pub kind: Option<NoticeKind>,
    pub endpoint: Option<String>,
    pub from: Option<Timestamp>,
    pub to: Option<Timestamp>,
}

/// A notice with public names.
#[derive(Clone, Debug)]
pub struct NamedNotice {
    pub app: String,
    pub endpoint: Option<String>,
    /// The endpoint's URL, or the last one of a deleted endpoint.
    pub url: Option<String>,
    pub event: Option<String>,
    /// For a digest: the count for each endpoint.
    pub endpoints: Vec<(String, u32)>,
    pub notice: Notice,
}

impl Service {
    /// Lists the notices of all apps, for the operator.
    pub async fn notices(
        &self,
        caller: Caller,
        query: NoticeQuery,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<NamedNotice>, Error> {
        Self::require_admin(caller)?;
        match &query.app {
            None => self.notices_where(None, query, after, limit).await,
            Some(uid) => match self.config_cache.app(uid) {
                Some(entry) => self.notices_where(Some(&entry), query, after, limit).await,
                None => Ok(Page { rows: Vec::new(), next: None }),
            },
        }
    }

    pub async fn notices_of(
        &self,
        entry: &CachedApp,
        query: NoticeQuery,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<NamedNotice>, Error> {
        self.notices_where(Some(entry), query, after, limit).await
    }

    pub async fn notice(&self, entry: &CachedApp, id: &str) -> Result<NamedNotice, Error> {
        let none = || Error::NotFound("notice");
        let id = NoticeId::parse(id).ok_or_else(none)?;
        let notice = self.query_store.notice(entry.app().id, id).await?.ok_or_else(none)?;
        self.with_notice_names(vec![notice]).await?.pop().ok_or_else(none)
    }

    async fn notices_where(
        &self,
        entry: Option<&CachedApp>,
        query: NoticeQuery,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<NamedNotice>, Error> {
        let app = entry.map(|entry| entry.app().id);
        let endpoint = match &query.endpoint {
            None => None,
            Some(uid) => match find_endpoint_id(entry, uid) {
                Some(endpoint) => Some(endpoint),
                None => return Ok(Page { rows: Vec::new(), next: None }),
            },
        };
        let filter = NoticeFilter { app, kind: query.kind, endpoint, from: query.from, to: query.to };
        let page = self.query_store.notices(filter, after, limit).await?;
        Ok(Page { rows: self.with_notice_names(page.rows).await?, next: page.next })
    }

    async fn with_notice_names(&self, notices: Vec<Notice>) -> Result<Vec<NamedNotice>, Error> {
        let endpoints = notices.iter().flat_map(|notice| notice.endpoints().collect::<Vec<_>>());
        let names = self.endpoint_names(endpoints.collect::<Vec<_>>().into_iter()).await?;
        Ok(notices.into_iter().filter_map(|notice| self.with_notice_name(notice, &names)).collect())
    }

    /// Adds public names; `None` if the app was deleted meanwhile.
    fn with_notice_name(
        &self,
        notice: Notice,
        names: &HashMap<EndpointId, EndpointLabel>,
    ) -> Option<NamedNotice> {
        let app = self.config_cache.app_by_id(notice.app)?.app();
        let uid = |id: EndpointId| names.get(&id).map_or_else(|| id.to_string(), |name| name.uid.clone());
        let of_digest = notice.digest.iter().flat_map(Digest::endpoints);
        Some(NamedNotice {
            app: app.uid.clone(),
            endpoint: notice.endpoint.map(uid),
            url: notice.endpoint.and_then(|id| names.get(&id)).map(|name| name.url.clone()),
            event: notice.event.as_ref().map(|event| event.public_id(app.id_prefix())),
            endpoints: of_digest.map(|of| (uid(of.id()), of.count)).collect(),
            notice,
        })
    }
}

/// Finds an endpoint by its public id, or by its internal id, also a deleted one.
fn find_endpoint_id(entry: Option<&CachedApp>, uid: &str) -> Option<EndpointId> {
    let named = entry.and_then(|entry| entry.endpoint(uid)).map(|endpoint| endpoint.id());
    named.or_else(|| EndpointId::parse(uid))
}
