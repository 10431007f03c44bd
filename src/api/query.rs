//! Query parameters and cursors. A cursor is bound to the list and filter it came from; any other is refused. Cursors are
//! encrypted, because a page examines rows of all apps and its cursor may point at another app's row.

use super::problem::{ErrorCode, Problem};
use crate::{
    domain::{field_error::nearest, time::Timestamp},
    service::{
        Service,
        paging::{Cursor, Page},
    },
};
use aws_lc_rs::digest::{Context, SHA256};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use http::Uri;
use serde::Serialize;
use url::form_urlencoded;

const LIMIT_DEFAULT: u32 = 50;
const LIMIT_MAX: u32 = 250;

/// Where in a list to go on, and how far.
#[derive(Debug, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes the two parameters that every list has")]
pub(super) struct PageParameters {
    /// How many to return.
    #[param(minimum = 1, maximum = 250, default = 50)]
    limit: Option<u32>,
    /// `next_cursor` of the page before, with the same filter.
    cursor: Option<String>,
}

/// A page of a list; `next_cursor` continues it. A short page may have one.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Page)]
pub(super) struct PageView<T> {
    pub data: Vec<T>,
    pub next_cursor: Option<String>,
}

/// Parameters of one request, all of them known.
#[derive(Debug)]
pub(super) struct Query {
    pairs: Vec<(String, String)>,
    /// Context that cursors of this list and filter are encrypted with.
    binding: String,
}

impl Query {
    /// Parses a list's parameters. An unknown one is refused with the nearest known name.
    pub(super) fn read(uri: &Uri, filters: &[&str]) -> Result<Self, Problem> {
        Self::read_without_paging(uri, &[filters, &["limit", "cursor"]].concat())
    }

    /// Parses the parameters of a request that is no list.
    pub(super) fn read_without_paging(uri: &Uri, known: &[&str]) -> Result<Self, Problem> {
        let mut pairs: Vec<(String, String)> =
            form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()).into_owned().collect();
        for (index, (name, _)) in pairs.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                let hint = match nearest(name, known) {
                    Some(near) => format!("{name}: there is no such parameter; did you mean `{near}`?"),
                    None => format!("{name}: there is no such parameter; known: {}", known.join(", ")),
                };
                return Err(Problem::at(ErrorCode::UnknownField, name, hint));
            }
            if pairs[..index].iter().any(|(earlier, _)| earlier == name) {
                return Err(Problem::invalid(name, "is given twice"));
            }
        }
        pairs.sort_unstable();
        let mut context = Context::new(&SHA256);
        context.update(uri.path().as_bytes());
        for (name, value) in pairs.iter().filter(|(name, _)| name != "limit" && name != "cursor") {
            for part in [name, value] {
                context.update(&(part.len() as u64).to_le_bytes());
                context.update(part.as_bytes());
            }
        }
        let binding = format!("cursor {}", BASE64_URL_SAFE_NO_PAD.encode(context.finish().as_ref()));
        Ok(Self { pairs, binding })
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn owned(&self, name: &str) -> Option<String> {
        self.get(name).map(str::to_owned)
    }

    pub(super) fn time(&self, name: &str) -> Result<Option<Timestamp>, Problem> {
        let form = "must be a time in RFC 3339, for example 2026-11-15T09:30:00Z";
        self.get(name)
            .map(|text| Timestamp::parse(text).ok_or_else(|| Problem::invalid(name, form)))
            .transpose()
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool, Problem> {
        match self.get(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(Problem::invalid(name, "must be true or false")),
        }
    }

    pub(super) fn limit(&self) -> Result<u32, Problem> {
        let Some(text) = self.get("limit") else { return Ok(LIMIT_DEFAULT) };
        let limit = text.parse().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit));
        limit.ok_or_else(|| Problem::invalid("limit", &format!("must be 1 to {LIMIT_MAX}")))
    }

    pub(super) fn cursor(&self, service: &Service) -> Result<Option<Cursor>, Problem> {
        let foreign =
            || Problem::at(ErrorCode::InvalidCursor, "cursor", "cursor: is not one of this list and filter");
        self.get("cursor").map(|text| self.decode_cursor(service, text).ok_or_else(foreign)).transpose()
    }

    /// Builds the answer of a page, with its cursor bound to this list and filter.
    pub(super) fn page_view<T, V>(
        &self,
        service: &Service,
        page: Page<T>,
        view: impl FnMut(T) -> V,
    ) -> PageView<V> {
        let next_cursor = page.next.and_then(|cursor| self.encode_cursor(service, cursor));
        PageView { data: page.rows.into_iter().map(view).collect(), next_cursor }
    }

    fn encode_cursor(&self, service: &Service, cursor: Cursor) -> Option<String> {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&cursor.at.to_be_bytes());
        bytes[8..].copy_from_slice(&cursor.id.to_be_bytes());
        Some(BASE64_URL_SAFE_NO_PAD.encode(service.encrypt_cursor(&bytes, &self.binding)?))
    }

    fn decode_cursor(&self, service: &Service, text: &str) -> Option<Cursor> {
        let encrypted = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
        let bytes: [u8; 16] = service.decrypt_cursor(&encrypted, &self.binding)?.try_into().ok()?;
        let (at, id) = bytes.split_first_chunk::<8>()?;
        Some(Cursor { at: i64::from_be_bytes(*at), id: i64::from_be_bytes(id.try_into().ok()?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Result<Query, Problem> {
        Query::read(&text.parse().unwrap(), &["status", "event_type"])
    }

    fn status_of(text: &str, read: impl Fn(&Query) -> Option<Problem>) -> u16 {
        let problem = query(text).map_or_else(Some, |query| read(&query));
        problem.map_or(200, |problem| problem.status().as_u16())
    }

    #[test]
    fn a_cursor_opens_only_with_the_list_and_filter_it_came_from() {
        let here = query("/v1/apps/a/deliveries?status=dead&event_type=x").unwrap();
        let cursor = Cursor { at: 1_700_000_000_000, id: 42 };
        let service = crate::service::test_service::service();
        let encrypted = here.encode_cursor(&service, cursor).unwrap();
        let open =
            |text: &str| query(&format!("{text}&cursor={encrypted}&limit=7")).unwrap().cursor(&service);
        assert_eq!(open("/v1/apps/a/deliveries?status=dead&event_type=x").unwrap(), Some(cursor));
        assert_eq!(open("/v1/apps/a/deliveries?event_type=x&status=dead").unwrap(), Some(cursor));
        for other in [
            "/v1/apps/b/deliveries?status=dead&event_type=x",
            "/v1/apps/a/events?status=dead&event_type=x",
            "/v1/apps/a/deliveries?status=dead",
            "/v1/apps/a/deliveries?status=deadevent_type&event_type=x",
        ] {
            let view = open(other).unwrap_err().view();
            assert_eq!((view.status, view.field.as_deref()), (400, Some("cursor")), "{other}");
        }
    }

    #[test]
    fn a_cursor_with_any_changed_character_is_refused() {
        let here = query("/list").unwrap();
        let service = crate::service::test_service::service();
        let encrypted = here.encode_cursor(&service, Cursor { at: 7, id: 8 }).unwrap();
        for index in 0..encrypted.len() {
            let mut changed = encrypted.clone().into_bytes();
            changed[index] = if changed[index] == b'A' { b'B' } else { b'A' };
            assert_eq!(here.decode_cursor(&service, &String::from_utf8(changed).unwrap()), None, "{index}");
        }
        for bad in ["", "A", "!", &encrypted[1..]] {
            assert_eq!(here.decode_cursor(&service, bad), None, "{bad}");
        }
    }

    #[test]
    fn limits_have_bounds_and_unknown_parameters_a_hint() {
        let limit = |query: &Query| query.limit().err();
        for (text, status) in [
            ("/l", 200),
            ("/l?limit=1", 200),
            ("/l?limit=250", 200),
            ("/l?limit=0", 422),
            ("/l?limit=251", 422),
        ] {
            assert_eq!(status_of(text, limit), status, "{text}");
        }
        assert_eq!(status_of("/l?limit=x", limit), 422);
        assert_eq!(status_of("/l?limit=1&limit=2", limit), 422);
        let view = query("/l?statsu=dead").unwrap_err().view();
        assert_eq!(view.detail, "statsu: there is no such parameter; did you mean `status`?");
    }
}
