//! Format of the setting `store`. The address of a database can hold a password, so no such value is ever repeated.

use super::ValueFormat;
use model::database_address::{DatabaseAddress, DatabaseAddressError};
use std::path::PathBuf;

/// The kind of store, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreLocation {
    Sqlite(PathBuf),
    Postgres(Box<DatabaseAddress>),
}

impl StoreLocation {
    /// Parses the setting `store`. An error says what is wrong and repeats no secret.
    pub fn parse(text: &str) -> Result<Self, DatabaseAddressError> {
        let path = text.strip_prefix("sqlite:").filter(|path| !path.is_empty() && !path.starts_with("//"));
        match path {
            Some(path) => Ok(Self::Sqlite(path.into())),
            None => DatabaseAddress::parse(text).map(|address| Self::Postgres(Box::new(address))),
        }
    }
}

pub(crate) const STORE: ValueFormat<StoreLocation> =
    ValueFormat::new(STORE_ALLOWED, |text| StoreLocation::parse(text).ok())
        .with_explanation(explain)
        .hidden();

const STORE_ALLOWED: &str = "sqlite: and the path of a file, for example sqlite:/var/lib/posthaste/posthaste.db, or a database as \
     postgres://user:password@host:5432/name, after a ? with sslmode (disable, prefer, require, verify-full), sslrootcert (a \
     path, for verify-full), pooler (true, false) and others that docs/operating.md lists, separated by &";

/// Explains an invalid address of a database. Other text gets no explanation, because it may hold anything.
fn explain(text: &str) -> Option<String> {
    let error = StoreLocation::parse(text).err()?;
    (error != DatabaseAddressError::NotOne).then(|| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_after_sqlite_or_the_address_of_a_database_is_a_store() {
        assert_eq!((STORE.read)("sqlite:a.db"), Some(StoreLocation::Sqlite("a.db".into())));
        assert!(matches!((STORE.read)("postgres://user:pw@db/x"), Some(StoreLocation::Postgres(_))));
        for bad in ["", "sqlite:", "sqlite://host/a.db", "a.db", "postgres://db/x?sslmode=perhaps", "mysql:x"]
        {
            assert_eq!((STORE.read)(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn an_invalid_database_address_is_explained() {
        let said = (STORE.explain)("postgres://me:pw@db/x?sslmode=perhaps").unwrap();
        assert!(said.starts_with("sslmode must be disable"), "{said}");
        assert_eq!((STORE.explain)("mysql:x"), None);
    }
}
