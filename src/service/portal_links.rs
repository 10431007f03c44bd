//! Portal links: a customer's short-lived access to one app. A link is a key whose token is shown once and occurs only in a
//! URL's fragment. It ends when it expires or is revoked.

use super::{
    Caller, Error, Service,
    api_keys::SHOWN_CHARACTERS,
    paging::{Cursor, Page, page_by_id},
};
use crate::{
    domain::{
        api_key::{ApiKey, KeyHash, Scope},
        app::App,
        audit::{AuditAction, AuditDetail},
        id::KeyId,
        portal_theme::{EXPIRED_LINK_RETENTION, PortalTheme},
        time::Timestamp,
    },
    runtime::CachedApp,
};
use std::{sync::Arc, time::Duration};

const LINK_TOKEN_PREFIX: &str = "pht_";
const EXPIRES_IN_DEFAULT: Duration = Duration::from_hours(1);
const EXPIRES_IN_MIN: Duration = Duration::from_mins(1);
const EXPIRES_IN_MAX: Duration = Duration::from_hours(7 * 24);
/// Valid links of one app.
const VALID_LINKS_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub struct NewPortalLink {
    pub expires_in: Option<Duration>,
    pub is_read_only: bool,
    pub theme: PortalTheme,
}

/// A key's identity, as its holder sees it.
#[derive(Clone, Debug)]
pub struct KeySession {
    pub scope: Scope,
    /// App of the key, if it has one.
    pub app: Option<Arc<App>>,
    pub expires_at: Option<Timestamp>,
    /// For a portal link.
    pub theme: Option<PortalTheme>,
}

impl Service {
    /// Creates a portal link. Returns its row and its token, which cannot be read again.
    pub async fn add_portal_link(
        &self,
        caller: Caller,
        entry: &CachedApp,
        new: NewPortalLink,
    ) -> Result<(ApiKey, String), Error> {
        let (app, now) = (entry.app(), self.clock.now());
        let expires_in = new.expires_in.unwrap_or(EXPIRES_IN_DEFAULT);
        if !(EXPIRES_IN_MIN..=EXPIRES_IN_MAX).contains(&expires_in) {
            return Err(Error::field("expires_in", "must be from 1m to 7d"));
        }
        let theme = new.theme.checked()?;
        let works = |key: &ApiKey| key.expires_at.is_none_or(|at| now < at);
        let links = self.config_cache.portal_links(app.id);
        if links.iter().filter(|live| works(live.key())).count() >= VALID_LINKS_MAX {
            let detail =
                format!("An app has at most {VALID_LINKS_MAX} portal links that work; revoke some, or wait.");
            return Err(Error::Conflict(detail));
        }
        let token = self.random_key(LINK_TOKEN_PREFIX);
        let key = ApiKey {
            id: KeyId::from_i64(self.take_ids(now, 1)),
            hash: KeyHash::of(&token),
            display_prefix: token[..SHOWN_CHARACTERS].to_owned(),
            scope: if new.is_read_only { Scope::PortalRead(app.id) } else { Scope::Portal(app.id) },
            name: theme.name.clone(),
            created_at: now,
            expires_at: Some(now.plus(expires_in)),
            last_used_at: None,
            revoked_at: None,
            theme: Some(theme),
        };
        let detail = Some(AuditDetail::of_scope(key.scope.name()));
        let noted =
            self.audit_entry_in(caller, &app, AuditAction::PortalLinkCreated, key.id.to_string(), detail);
        let forgotten = self.config_store.add_key(key.clone(), Some(noted)).await?;
        self.config_cache.remove_keys(&forgotten);
        self.config_cache.put_key(key.clone());
        Ok((key, token))
    }

    /// Lists links that are valid or expired within the last day.
    pub fn portal_links(&self, entry: &CachedApp, after: Option<Cursor>, limit: u32) -> Page<ApiKey> {
        let mut links = self.config_cache.portal_links(entry.app().id);
        let now = self.clock.now();
        links.retain(|live| live.key().expires_at.is_none_or(|at| now < at.plus(EXPIRED_LINK_RETENTION)));
        let page = page_by_id(links, |live| live.key().id.as_i64(), after, limit);
        Page { rows: page.rows.iter().map(|live| live.with_last_use()).collect(), next: page.next }
    }

    /// Revokes a link. It stops working before this returns.
    pub async fn revoke_portal_link(&self, caller: Caller, entry: &CachedApp, id: &str) -> Result<(), Error> {
        let missing = || Error::NotFound("portal link");
        let id = KeyId::parse(id).ok_or_else(missing)?;
        let app = entry.app();
        let live = self.config_cache.key_by_id(id).ok_or_else(missing)?;
        let scope = live.key().scope;
        if !scope.is_portal() || scope.app() != Some(app.id) {
            return Err(missing());
        }
        let noted = self.audit_entry_in(caller, &app, AuditAction::PortalLinkRevoked, id.to_string(), None);
        if self.revoke(id, noted).await? { Ok(()) } else { Err(missing()) }
    }

    /// Returns the URL of a link. The token is in the fragment, which browsers send to no server; the id before it only lets
    /// the page show the link's logo.
    pub fn portal_address(&self, link: &ApiKey, token: &str) -> String {
        format!("{}/portal/{}#key={token}", self.node_info.public_url, link.id)
    }

    pub fn session(&self, caller: Caller) -> KeySession {
        let key = self.config_cache.key_by_id(caller.key);
        let app = caller.scope.app().and_then(|id| self.config_cache.app_by_id(id)).map(|entry| entry.app());
        KeySession {
            scope: caller.scope,
            app,
            expires_at: key.as_ref().and_then(|live| live.key().expires_at),
            theme: key.and_then(|live| live.key().theme.clone()),
        }
    }

    /// Origins of pages that may embed the portal in a frame.
    pub fn portal_origins(&self) -> &[String] {
        &self.node_info.portal_origins
    }

    /// Returns the link's logo: the only foreign image that its page may show.
    pub fn logo_of(&self, link: &str) -> Option<String> {
        let live = self.config_cache.key_by_id(KeyId::parse(link)?)?;
        live.key().theme.as_ref()?.image_source()
    }
}
