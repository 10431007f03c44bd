//! Paging of lists, and the public names of endpoints and events.

pub use crate::store::queries::{AttemptRow, Cursor, DeliveryRow, LastError, Page};

use super::{Error, Service};
use crate::{
    domain::{
        app::App,
        id::{EndpointId, EventId},
    },
    store::config::EndpointLabel,
};
use std::collections::HashMap;

/// Returns the page after the cursor from a list that is held in memory in order of ids.
pub(super) fn page_by_id<T>(
    all: Vec<T>,
    id: impl Fn(&T) -> i64,
    after: Option<Cursor>,
    limit: u32,
) -> Page<T> {
    let after = after.map_or(i64::MIN, |cursor| cursor.id);
    let mut rows: Vec<T> = all.into_iter().filter(|row| id(row) > after).take(limit as usize + 1).collect();
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next = rows.last().filter(|_| more).map(|last| Cursor { at: 0, id: id(last) });
    Page { rows, next }
}

/// Parses an internal event id, written under the app's prefix or the default one.
pub(super) fn internal_event_id(app: &App, text: &str) -> Option<EventId> {
    let digits = text.strip_prefix(app.id_prefix()).and_then(|rest| rest.strip_prefix('_'));
    let own = digits.and_then(|digits| EventId::parse(&format!("{}_{digits}", EventId::PREFIX)));
    own.or_else(|| EventId::parse(text))
}

impl Service {
    /// Returns the public ids and URLs of these endpoints, deleted ones included.
    pub(super) async fn endpoint_names(
        &self,
        ids: impl Iterator<Item = EndpointId>,
    ) -> Result<HashMap<EndpointId, EndpointLabel>, Error> {
        let mut names = HashMap::new();
        let mut deleted = Vec::new();
        for id in ids {
            match self.config_cache.endpoint(id) {
                Some(endpoint) => {
                    let (uid, url) = (endpoint.record.uid.clone(), endpoint.record.settings.url.clone());
                    names.insert(id, EndpointLabel { id, uid, url });
                }
                None => deleted.push(id),
            }
        }
        if !deleted.is_empty() {
            deleted.sort_unstable();
            deleted.dedup();
            let stored = self.store.endpoint_names(deleted).await?;
            names.extend(stored.into_iter().map(|name| (name.id, name)));
        }
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{app::AppSettings, id::AppId, time::Timestamp};

    #[test]
    fn pages_follow_one_another_and_the_last_has_no_cursor() {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = page_by_id((1..=7i64).collect(), |id| *id, after, 3);
            seen.extend(page.rows);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen, [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(
            page_by_id(vec![1i64, 2, 3], |id| *id, None, 3).next,
            None,
            "a full last page has no cursor"
        );
    }

    #[test]
    fn an_internal_event_id_is_read_under_the_apps_prefix_and_the_default_one() {
        let app = |id_prefix: Option<&str>| App {
            id: AppId::from_i64(1),
            uid: "a".into(),
            settings: AppSettings { id_prefix: id_prefix.map(str::to_owned), ..AppSettings::default() },
            created_at: Timestamp::from_millis(0),
            updated_at: Timestamp::from_millis(0),
        };
        let id = EventId::from_i64(77);
        assert_eq!(internal_event_id(&app(None), &id.to_string()), Some(id));
        assert_eq!(internal_event_id(&app(Some("msg")), &id.with_prefix("msg")), Some(id));
        assert_eq!(internal_event_id(&app(Some("msg")), &id.to_string()), Some(id));
        assert_eq!(internal_event_id(&app(None), &id.with_prefix("msg")), None);
        assert_eq!(internal_event_id(&app(None), "order-17"), None);
    }
}
