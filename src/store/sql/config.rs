//! Apps, endpoints, keys and contracts: small tables, read whole at start.

use super::{
    ConfigChange, Error, Result, Row, Sql, event_types, health, inspections, maintenance, notices, params,
    row::named,
};
use crate::{
    domain::{
        api_key::{ApiKey, KeyHash, Scope},
        app::App,
        contract::ContractHash,
        endpoint::{Disabled, EncryptedSecret, EndpointRecord, EndpointSettings},
        health::disabled_manually,
        id::{AppId, EndpointId, KeyId},
        portal_theme::EXPIRED_LINK_RETENTION,
        time::Timestamp,
    },
    store::{
        config::{ConfigSnapshot, EndpointLabel, Inserted},
        documents::{self, StoredDocument},
    },
};
use serde::de::DeserializeOwned;
use std::collections::HashMap;

/// Columns that `key` reads, in its order.
const KEY_COLUMNS: &str =
    "id, hash, prefix, scope, app, name, created_at, expires_at, last_used_at, revoked_at, theme";

/// Expired links that each new link removes at most, so that they do not pile up.
const EXPIRED_LINKS_REMOVED_MAX: i64 = 100;

pub(in crate::store) fn config_snapshot(connection: &dyn Sql) -> Result<ConfigSnapshot> {
    let apps =
        connection.all("SELECT id, uid, settings, created_at, updated_at FROM apps ORDER BY id", &[], app)?;
    let mut secrets: HashMap<EndpointId, Vec<EncryptedSecret>> = HashMap::new();
    connection.each(
        "SELECT endpoint, encrypted, valid_from, valid_until FROM secrets ORDER BY endpoint, position",
        &[],
        |row| {
            let secret =
                EncryptedSecret { encrypted: row.get(1)?, valid_from: row.get(2)?, valid_until: row.get(3)? };
            secrets.entry(row.get(0)?).or_default().push(secret);
            Ok(())
        },
    )?;
    let endpoints = connection.all(
        "SELECT id, app, uid, settings, disabled, encrypted_headers, encrypted_tls, revision, created_at, updated_at FROM endpoints
         WHERE deleted_at IS NULL ORDER BY id",
        &[],
        |row| endpoint(row, &mut secrets),
    )?;
    let keys = connection.all(
        &format!("SELECT {KEY_COLUMNS} FROM keys WHERE revoked_at IS NULL ORDER BY id"),
        &[],
        key,
    )?;
    let event_types = event_types::all(connection)?;
    Ok(ConfigSnapshot { apps, endpoints, keys, event_types })
}

fn app(row: &Row<'_>) -> Result<App> {
    let id = row.get(0)?;
    named(id, read_app(row, id))
}

fn read_app(row: &Row<'_>, id: AppId) -> Result<App> {
    Ok(App {
        id,
        uid: row.get(1)?,
        settings: json(row, 2)?,
        created_at: row.get(3)?,
        updated_at: row.get(4)?,
    })
}

fn endpoint(
    row: &Row<'_>,
    secrets: &mut HashMap<EndpointId, Vec<EncryptedSecret>>,
) -> Result<EndpointRecord> {
    let id = row.get(0)?;
    named(id, read_endpoint(row, id, secrets.remove(&id).unwrap_or_default()))
}

fn read_endpoint(row: &Row<'_>, id: EndpointId, secrets: Vec<EncryptedSecret>) -> Result<EndpointRecord> {
    Ok(EndpointRecord {
        id,
        app: row.get(1)?,
        uid: row.get(2)?,
        settings: json(row, 3)?,
        disabled: read_disabled(row.get(4)?)?,
        encrypted_headers: row.get(5)?,
        encrypted_tls: row.get(6)?,
        secrets,
        revision: row.get(7)?,
        created_at: row.get(8)?,
        updated_at: row.get(9)?,
    })
}

fn key(row: &Row<'_>) -> Result<ApiKey> {
    let id = row.get(0)?;
    named(id, read_key(row, id))
}

fn read_key(row: &Row<'_>, id: KeyId) -> Result<ApiKey> {
    Ok(ApiKey {
        id,
        hash: KeyHash(row.get(1)?),
        display_prefix: row.get(2)?,
        scope: read_scope(row.get(3)?, row.get(4)?)?,
        name: row.get(5)?,
        created_at: row.get(6)?,
        expires_at: row.get(7)?,
        last_used_at: row.get(8)?,
        revoked_at: row.get(9)?,
        theme: optional_json(row, 10)?,
    })
}

/// An unknown scope is an error: it must not become one that allows more.
fn read_scope(name: &str, app: Option<AppId>) -> Result<Scope> {
    Scope::named(name, app).ok_or_else(|| Error::Wrong(format!("{name} is no scope of such a key")))
}

pub(super) fn json<T: StoredDocument + DeserializeOwned>(row: &Row<'_>, column: usize) -> Result<T> {
    Ok(documents::read(row.get(column)?)?)
}

/// Reads a document of a column that may be empty.
pub(super) fn optional_json<T: StoredDocument + DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
) -> Result<Option<T>> {
    Ok(row.get::<Option<&str>>(column)?.map(documents::read).transpose()?)
}

pub(super) fn to_json<T: StoredDocument + ?Sized>(value: &T) -> Result<String> {
    Ok(documents::write(value)?)
}

pub(super) fn read_disabled(text: Option<&str>) -> Result<Option<Disabled>> {
    Ok(text.map(documents::read).transpose()?)
}

pub(super) fn write_disabled(off: &Disabled) -> Result<String> {
    to_json(off)
}

/// Logs a changed row for other nodes; returns whether there was such a row.
pub(super) fn log_if_changed(tx: &dyn Sql, changed: usize, what: impl Into<ConfigChange>) -> Result<bool> {
    if changed == 1 {
        tx.log_change(what.into())?;
    }
    Ok(changed == 1)
}

pub(in crate::store) fn add_app(tx: &dyn Sql, app: &App) -> Result<Inserted> {
    tx.check_id(app.id.as_i64())?;
    let added = tx.execute(
        "INSERT INTO apps (id, uid, settings, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT DO NOTHING",
        params![app.id, app.uid, to_json(&app.settings)?, app.created_at, app.updated_at],
    )?;
    if added == 0 {
        return Ok(Inserted::UidTaken);
    }
    tx.log_change(app.id.into())?;
    Ok(Inserted::Added)
}

pub(in crate::store) fn change_app(tx: &dyn Sql, app: &App) -> Result<bool> {
    let changed = tx.execute(
        "UPDATE apps SET settings = ?2, updated_at = ?3 WHERE id = ?1",
        params![app.id, to_json(&app.settings)?, app.updated_at],
    )?;
    log_if_changed(tx, changed, app.id)
}

pub(in crate::store) fn remove_app(tx: &dyn Sql, app: AppId) -> Result<bool> {
    maintenance::remember_newest_id(tx)?;
    if tx.execute("DELETE FROM apps WHERE id = ?1", params![app])? == 0 {
        return Ok(false);
    }
    tx.execute(
        "DELETE FROM secrets WHERE endpoint IN (SELECT id FROM endpoints WHERE app = ?1)",
        params![app],
    )?;
    tx.execute(
        "DELETE FROM inspections WHERE endpoint IN (SELECT id FROM endpoints WHERE app = ?1)",
        params![app],
    )?;
    tx.execute(
        "DELETE FROM health WHERE endpoint IN (SELECT id FROM endpoints WHERE app = ?1)",
        params![app],
    )?;
    tx.execute("DELETE FROM endpoints WHERE app = ?1", params![app])?;
    tx.execute("DELETE FROM keys WHERE app = ?1", params![app])?;
    tx.execute("DELETE FROM replays WHERE app = ?1", params![app])?;
    tx.execute("INSERT INTO app_deletions (app, deleted_up_to) VALUES (?1, 0)", params![app])?;
    tx.log_change(app.into())?;
    Ok(true)
}

pub(in crate::store) fn add_endpoint(tx: &dyn Sql, endpoint: &EndpointRecord) -> Result<Inserted> {
    tx.check_id(endpoint.id.as_i64())?;
    let added = tx.execute(
        "INSERT INTO endpoints (id, app, uid, settings, disabled, encrypted_headers, encrypted_tls, revision, created_at, updated_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT DO NOTHING",
        params![
            endpoint.id,
            endpoint.app,
            endpoint.uid,
            to_json(&endpoint.settings)?,
            endpoint.disabled.as_ref().map(write_disabled).transpose()?,
            endpoint.encrypted_headers,
            endpoint.encrypted_tls,
            endpoint.revision,
            endpoint.created_at,
            endpoint.updated_at,
        ],
    )?;
    if added == 0 {
        return Ok(Inserted::UidTaken);
    }
    write_secrets(tx, endpoint)?;
    tx.log_change(endpoint.id.into())?;
    Ok(Inserted::Added)
}

fn write_secrets(tx: &dyn Sql, endpoint: &EndpointRecord) -> Result<()> {
    tx.execute("DELETE FROM secrets WHERE endpoint = ?1", params![endpoint.id])?;
    for (position, secret) in endpoint.secrets.iter().enumerate() {
        tx.execute(
            "INSERT INTO secrets (endpoint, position, encrypted, valid_from, valid_until) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![endpoint.id, position as i64, secret.encrypted, secret.valid_from, secret.valid_until],
        )?;
    }
    Ok(())
}

pub(in crate::store) fn change_endpoint(tx: &dyn Sql, endpoint: &EndpointRecord) -> Result<bool> {
    // A delivery made as held meanwhile sees whether the endpoint is enabled.
    tx.lock_queue(endpoint.id)?;
    let before = "SELECT disabled IS NOT NULL, settings FROM endpoints WHERE id = ?1";
    let before = tx.one(before, params![endpoint.id], |row| {
        let settings: EndpointSettings = named(endpoint.id, json(row, 1))?;
        Ok((row.get::<bool>(0)?, settings.url != endpoint.settings.url))
    })?;
    let (was_off, has_moved) =
        before.map_or((None, false), |(is_disabled, has_moved)| (Some(is_disabled), has_moved));
    let changed = tx.execute(
        "UPDATE endpoints SET settings = ?3, disabled = ?4, encrypted_headers = ?5, encrypted_tls = ?6, revision = ?2, updated_at = ?7
         WHERE id = ?1 AND revision = CAST(?2 AS bigint) - 1 AND deleted_at IS NULL",
        params![
            endpoint.id,
            endpoint.revision,
            to_json(&endpoint.settings)?,
            endpoint.disabled.as_ref().map(write_disabled).transpose()?,
            endpoint.encrypted_headers,
            endpoint.encrypted_tls,
            endpoint.updated_at,
        ],
    )?;
    if changed == 0 {
        return Ok(false);
    }
    write_secrets(tx, endpoint)?;
    tx.log_change(endpoint.id.into())?;
    match (was_off, &endpoint.disabled) {
        (Some(false), Some(off)) => notices::put(tx, &disabled_manually(endpoint.app, endpoint.id, off))?,
        (Some(true), None) => health::reset(tx, endpoint.app, endpoint.id, endpoint.updated_at)?,
        _ if has_moved => health::forget_pause(tx, endpoint.id)?,
        _ => {}
    }
    Ok(true)
}

pub(in crate::store) fn remove_endpoint(tx: &dyn Sql, endpoint: EndpointId, now: Timestamp) -> Result<bool> {
    tx.execute("DELETE FROM secrets WHERE endpoint = ?1", params![endpoint])?;
    inspections::cancel(tx, endpoint, now)?;
    health::delete_health(tx, endpoint)?;
    tx.execute(
        "DELETE FROM statistics WHERE app = (SELECT app FROM endpoints WHERE id = ?1) AND endpoint = ?1",
        params![endpoint],
    )?;
    let changed = tx.execute(
        "UPDATE endpoints SET deleted_at = ?2, encrypted_headers = NULL, encrypted_tls = NULL WHERE id = ?1 AND deleted_at IS NULL",
        params![endpoint, now],
    )?;
    log_if_changed(tx, changed, endpoint)
}

/// Returns an endpoint as it is stored now; the engine reads it after a receiver said that it is gone.
pub(in crate::store) fn endpoint_record(
    connection: &dyn Sql,
    id: EndpointId,
) -> Result<Option<EndpointRecord>> {
    let secrets = connection.all(
        "SELECT encrypted, valid_from, valid_until FROM secrets WHERE endpoint = ?1 ORDER BY position",
        params![id],
        |row| {
            Ok(EncryptedSecret { encrypted: row.get(0)?, valid_from: row.get(1)?, valid_until: row.get(2)? })
        },
    )?;
    connection.one(
        "SELECT id, app, uid, settings, disabled, encrypted_headers, encrypted_tls, revision, created_at, updated_at FROM endpoints
         WHERE id = ?1 AND deleted_at IS NULL",
        params![id],
        |row| endpoint(row, &mut HashMap::from([(id, secrets.clone())])),
    )
}

pub(in crate::store) fn one_app(connection: &dyn Sql, id: AppId) -> Result<Option<App>> {
    let sql = "SELECT id, uid, settings, created_at, updated_at FROM apps WHERE id = ?1";
    connection.one(sql, params![id], app)
}

pub(in crate::store) fn endpoint_names(
    connection: &dyn Sql,
    endpoints: &[EndpointId],
) -> Result<Vec<EndpointLabel>> {
    let sql = "SELECT uid, settings FROM endpoints WHERE id = ?1";
    let mut names = Vec::with_capacity(endpoints.len());
    for id in endpoints {
        let name = |row: &Row<'_>| {
            let settings: EndpointSettings = json(row, 1)?;
            Ok(EndpointLabel { id: *id, uid: row.get(0)?, url: settings.url })
        };
        names.extend(connection.one(sql, params![id], |row| named(id, name(row)))?);
    }
    Ok(names)
}

pub(in crate::store) fn one_key(connection: &dyn Sql, id: KeyId) -> Result<Option<ApiKey>> {
    let sql = format!("SELECT {KEY_COLUMNS} FROM keys WHERE id = ?1");
    connection.one(&sql, params![id], key)
}

pub(in crate::store) fn keys(connection: &dyn Sql, after: KeyId, most: u32) -> Result<Vec<ApiKey>> {
    let sql = format!(
        "SELECT {KEY_COLUMNS} FROM keys WHERE id > ?1 AND scope NOT IN ('portal', 'portal_read') ORDER BY id LIMIT ?2"
    );
    connection.all(&sql, params![after, most], key)
}

pub(in crate::store) fn add_key(tx: &dyn Sql, key: &ApiKey) -> Result<Vec<KeyId>> {
    tx.check_id(key.id.as_i64())?;
    let forgotten = if key.scope.is_portal() { remove_expired_links(tx, key)? } else { Vec::new() };
    tx.execute(
        &format!("INSERT INTO keys ({KEY_COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)"),
        params![
            key.id,
            key.hash.0,
            key.display_prefix,
            key.scope.name(),
            key.scope.app(),
            key.name,
            key.created_at,
            key.expires_at,
            key.last_used_at,
            key.revoked_at,
            key.theme.as_ref().map(to_json).transpose()?,
        ],
    )?;
    forgotten.iter().chain([&key.id]).try_for_each(|key| tx.log_change((*key).into()))?;
    Ok(forgotten)
}

/// Removes expired links of the app. Links are made for every visit and live for hours, so expired ones go as new ones come.
fn remove_expired_links(tx: &dyn Sql, new: &ApiKey) -> Result<Vec<KeyId>> {
    maintenance::remember_newest_id(tx)?;
    let kept_ms = EXPIRED_LINK_RETENTION.as_millis() as i64;
    let before = Timestamp::from_millis(new.created_at.as_millis().saturating_sub(kept_ms));
    tx.all(
        "DELETE FROM keys WHERE id IN (SELECT id FROM keys
             WHERE scope IN ('portal', 'portal_read') AND app = ?1 AND expires_at < ?2 ORDER BY expires_at LIMIT ?3)
         RETURNING id",
        params![new.scope.app(), before, EXPIRED_LINKS_REMOVED_MAX],
        |row| row.get(0),
    )
}

pub(in crate::store) fn revoke_key(tx: &dyn Sql, key: KeyId, now: Timestamp) -> Result<bool> {
    let sql = "UPDATE keys SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL";
    log_if_changed(tx, tx.execute(sql, params![key, now])?, key)
}

pub(in crate::store) fn store_contract(tx: &dyn Sql, hash: ContractHash, document: &str) -> Result<()> {
    let sql = "INSERT INTO contracts (hash, document) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    tx.execute(sql, params![hash.0, document])?;
    Ok(())
}

pub(in crate::store) fn contract(connection: &dyn Sql, hash: ContractHash) -> Result<Option<String>> {
    let sql = "SELECT document FROM contracts WHERE hash = ?1";
    connection.one(sql, params![hash.0], |row| row.get(0))
}
