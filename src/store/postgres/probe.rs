//! Inspects a database from outside, also while nodes use it: whether a node could start on it, and what its role lacks.
//! Reads only.

use super::{
    migrations::{NEWEST, RENAMING, WITH_INBOX},
    open::{self, DatabaseState, PostgresOpenError},
    session::{Server, Session},
};
use crate::store::sql::{Result, Row};
use std::time::Duration;

const PROBE_ANSWER_TIMEOUT: Duration = Duration::from_mins(1);

/// Facts about a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseInfo {
    pub found: DatabaseState,
    pub missing: Vec<MissingPrivilege>,
    /// All encrypted values in it, of endpoints that are not deleted.
    pub encrypted: Vec<Vec<u8>>,
}

/// A role or privilege that the connecting role lacks. Names are quoted as in SQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissingPrivilege {
    /// There is no schema, and the role may not create one.
    NoSchema { role: String, database: String },
    /// The schema, or so many objects in it, belong to another role: migrations would fail, and partitions of days would
    /// neither be made nor dropped.
    NotOwner { role: String, owner: String, others: i64, must_be_prepared: bool },
    /// Only the owner may publish in SQL, because the role for that is missing or has no privileges.
    NoPublisher,
}

const ROLE: &str = "SELECT quote_ident(current_user), quote_ident(current_database()),
    has_database_privilege(current_database(), 'CREATE')";
const SCHEMA: &str =
    "SELECT quote_ident(pg_get_userbyid(n.nspowner)), pg_has_role(n.nspowner, 'USAGE'), (SELECT count(*) FROM pg_class c
        WHERE c.relnamespace = n.oid AND c.relkind IN ('r', 'p', 'v') AND NOT pg_has_role(c.relowner, 'USAGE'))
     FROM pg_namespace n WHERE n.nspname = 'posthaste'";
const PUBLISHER: &str =
    "SELECT 1 FROM pg_roles r WHERE r.rolname = 'posthaste_publisher' AND has_schema_privilege(r.oid, 'posthaste', 'USAGE')
        AND has_function_privilege(r.oid, 'posthaste.publish(text, text, json, text, text)', 'EXECUTE')";
const SELECT_ENCRYPTED: &str = "SELECT s.encrypted FROM posthaste.secrets s JOIN posthaste.endpoints e ON e.id = s.endpoint WHERE e.deleted_at IS NULL
     UNION ALL SELECT encrypted_headers FROM posthaste.endpoints WHERE deleted_at IS NULL AND encrypted_headers IS NOT NULL
     UNION ALL SELECT encrypted_tls FROM posthaste.endpoints WHERE deleted_at IS NULL AND encrypted_tls IS NOT NULL";
const IS_HALF_IMPORTED: &str = "SELECT 1 FROM posthaste.sqlite_import WHERE finished = 0";
/// Statements for a database before the migration that renamed tables and columns.
const SELECT_ENCRYPTED_BEFORE: &str = "SELECT s.sealed FROM posthaste.secrets s JOIN posthaste.endpoints e ON e.id = s.endpoint WHERE e.deleted_at IS NULL
     UNION ALL SELECT headers FROM posthaste.endpoints WHERE deleted_at IS NULL AND headers IS NOT NULL
     UNION ALL SELECT tls FROM posthaste.endpoints WHERE deleted_at IS NULL AND tls IS NOT NULL";
const IS_HALF_IMPORTED_BEFORE: &str = "SELECT 1 FROM posthaste.moving WHERE done = 0";

/// Returns facts about a database. Refuses what `open` would refuse.
pub(super) fn probe(server: &Server) -> Result<DatabaseInfo, PostgresOpenError> {
    let found = open::probe(server)?;
    let session = Session::connect(server, PROBE_ANSWER_TIMEOUT)?;
    let (encrypted, is_half_imported) = if found.prepared >= RENAMING {
        (SELECT_ENCRYPTED, IS_HALF_IMPORTED)
    } else {
        (SELECT_ENCRYPTED_BEFORE, IS_HALF_IMPORTED_BEFORE)
    };
    if found.prepared >= WITH_INBOX && !session.query(is_half_imported, &[])?.is_empty() {
        return Err(PostgresOpenError::HalfMoved);
    }
    let mut lacks: Vec<MissingPrivilege> = rights(&session, found)?.into_iter().collect();
    if found.prepared >= WITH_INBOX && session.query(PUBLISHER, &[])?.is_empty() {
        lacks.push(MissingPrivilege::NoPublisher);
    }
    let encrypted = if found.prepared == 0 { Vec::new() } else { session.query(encrypted, &[])? };
    let encrypted = encrypted.iter().map(|row| Row::new(row).get(0)).collect::<Result<_>>()?;
    Ok(DatabaseInfo { found, missing: lacks, encrypted })
}

/// Returns the missing privilege that prevents preparing and maintaining the database, if any.
fn rights(session: &Session, found: DatabaseState) -> Result<Option<MissingPrivilege>> {
    let (of_role, of_schema) = (session.query(ROLE, &[])?, session.query(SCHEMA, &[])?);
    let Some(of_role) = of_role.first().map(|row| Row::new(row)) else { return Ok(None) };
    let role = of_role.get(0)?;
    let Some(schema) = of_schema.first().map(|row| Row::new(row)) else {
        let may_make_it = of_role.get(2)?;
        return Ok(if may_make_it {
            None
        } else {
            Some(MissingPrivilege::NoSchema { role, database: of_role.get(1)? })
        });
    };
    let (owner, is_owned, others): (String, bool, i64) = (schema.get(0)?, schema.get(1)?, schema.get(2)?);
    let must_be_prepared = found.prepared < NEWEST;
    let is_owner = is_owned && others == 0;
    Ok(if is_owner {
        None
    } else {
        Some(MissingPrivilege::NotOwner { role, owner, others, must_be_prepared })
    })
}
