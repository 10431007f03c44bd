//! Validates an endpoint's settings before they are stored: against its contract, the address policy and the caller's scope.

use super::{
    Caller, Error, Patch, Service,
    apps::{check_metadata, check_text},
};
use crate::{
    domain::{
        api_key::Scope,
        app::App,
        contract::Contract,
        endpoint::{EndpointRecord, EndpointSettings},
        event_type::{VERSION_NAME_FORM, is_version_name},
        ordering::{OnDead, OrderingMode},
        static_headers,
        subscription::Patterns,
        target_url::TargetUrl,
        time::Timestamp,
        tls::{EndpointTls, TlsDocument},
    },
    store::documents,
};
use serde_json::{Map, Value};

impl Service {
    pub(super) fn check_settings(&self, settings: &EndpointSettings) -> Result<(), Error> {
        Patterns::parse(&settings.event_types)?;
        if settings.payload_version.as_deref().is_some_and(|version| !is_version_name(version)) {
            return Err(Error::field("payload_version", format!("must be {VERSION_NAME_FORM}")));
        }
        let most = self.limits.in_flight_max;
        if settings.max_in_flight.is_some_and(|permits| !(1..=most).contains(&permits)) {
            return Err(Error::field("max_in_flight", format!("must be 1 to {most}")));
        }
        if settings.on_dead.is_some() && settings.ordered.is_none() {
            return Err(Error::field("on_dead", "needs `ordered`: \"endpoint\" or \"key\""));
        }
        if let Some(description) = &settings.description {
            check_text("description", description, 1000)?;
        }
        check_metadata(settings.metadata.as_ref())
    }

    /// Replaces both URLs by their canonical spelling, if the address policy and the contract allow them.
    pub(super) fn check_urls(
        &self,
        settings: &mut EndpointSettings,
        contract: &Contract,
    ) -> Result<(), Error> {
        settings.url = self.check_url("url", &settings.url, contract)?;
        self.check_health_url(settings, contract)
    }

    pub(super) fn check_health_url(
        &self,
        settings: &mut EndpointSettings,
        contract: &Contract,
    ) -> Result<(), Error> {
        if let Some(url) = &settings.health_url {
            settings.health_url = Some(self.check_url("health_url", url, contract)?);
        }
        Ok(())
    }

    fn check_url(&self, field: &str, url: &str, contract: &Contract) -> Result<String, Error> {
        let target = TargetUrl::parse(url, &self.addresses).map_err(|error| Error::field(field, error))?;
        if !target.is_https() && contract.https_only.unwrap_or(self.limits.https_only) {
            return Err(Error::field(field, "must start with https://"));
        }
        Ok(target.as_str().to_owned())
    }

    pub(super) fn encrypt_headers(
        &self,
        app: &App,
        record: &EndpointRecord,
        headers: Option<&[(String, String)]>,
        contract: &Contract,
    ) -> Result<Option<Vec<u8>>, Error> {
        let Some(headers) = headers.filter(|headers| !headers.is_empty()) else { return Ok(None) };
        check_headers(headers, contract)?;
        let document = documents::write(headers).map_err(|error| Error::Internal(error.to_string()))?;
        self.encrypt(app, record, document.as_bytes()).map(Some)
    }

    pub(super) fn encrypt_tls(
        &self,
        app: &App,
        record: &EndpointRecord,
        given: &Map<String, Value>,
        now: Timestamp,
    ) -> Result<Vec<u8>, Error> {
        let document = TlsDocument::read(given)?;
        EndpointTls::read(&document)?.check_times(now)?;
        let document = documents::write(&document).map_err(|error| Error::Internal(error.to_string()))?;
        self.encrypt(app, record, document.as_bytes())
    }
}

pub(super) fn check_headers(headers: &[(String, String)], contract: &Contract) -> Result<(), Error> {
    let pairs = headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    Ok(static_headers::check_all(pairs, contract)?)
}

/// Allows this field to admin keys only. Certificates belong to the operator, and so does the URL of an endpoint that has one:
/// with another URL, a stranger's server would be called in the operator's name.
pub(super) fn require_admin_for(caller: Caller, field: &str, detail: &str) -> Result<(), Error> {
    match caller.scope {
        Scope::Admin => Ok(()),
        _ => Err(Error::Forbidden { detail: detail.to_owned(), field: Some(field.to_owned()) }),
    }
}

/// Refuses fields that a portal link may not set: contract, rate limits, order, and the app's own metadata. `given` lists those
/// fields with whether each is present.
pub(super) fn forbid_to_portal_links(caller: Caller, given: &[(&str, bool)]) -> Result<(), Error> {
    match given.iter().find(|(_, is_given)| *is_given && caller.scope.is_portal()) {
        None => Ok(()),
        Some((field, _)) => {
            let detail = format!("{field}: cannot be set by a portal link.");
            Err(Error::Forbidden { detail, field: Some((*field).to_owned()) })
        }
    }
}

/// Applies `ordered` and `on_dead`. Removing the order also removes `on_dead`, unless the same patch sets it.
pub(super) fn apply_order(
    ordered: Patch<OrderingMode>,
    on_dead: Patch<OnDead>,
    settings: &mut EndpointSettings,
) {
    match ordered {
        Patch::Absent => {}
        Patch::Null => settings.ordered = OrderingMode::None,
        Patch::Value(order) => settings.ordered = order,
    }
    if settings.ordered.is_none() {
        settings.on_dead = None;
    }
    on_dead.apply(&mut settings.on_dead);
}

/// Refuses a certificate on a plain-HTTP endpoint: it would never be used and only look like protection.
pub(super) fn check_tls_is_used(record: &EndpointRecord) -> Result<(), Error> {
    if record.encrypted_tls.is_some() && !record.settings.url.starts_with("https://") {
        return Err(Error::field("tls", "needs a url that starts with https://"));
    }
    Ok(())
}
