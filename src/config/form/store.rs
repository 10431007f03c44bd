//! Which store, and where it is. The address of a database can hold a password, so no such value is ever repeated.

use super::Form;
use crate::store::postgres::{Address, AddressError};
use std::path::PathBuf;

/// Which store, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreLocation {
    Sqlite(PathBuf),
    Postgres(Box<Address>),
}

impl StoreLocation {
    /// As the setting `store` is written; an error says what is wrong, in words that repeat no secret.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let path = text.strip_prefix("sqlite:").filter(|path| !path.is_empty() && !path.starts_with("//"));
        match path {
            Some(path) => Ok(Self::Sqlite(path.into())),
            None => Address::parse(text).map(|address| Self::Postgres(Box::new(address))),
        }
    }
}

pub(in crate::config) const STORE: Form<StoreLocation> =
    Form::new(ALLOWED, |text| StoreLocation::parse(text).ok()).explained(why).hidden();

const ALLOWED: &str = "sqlite: and the path of a file, for example sqlite:/var/lib/posthaste/posthaste.db, or a database as \
     postgres://user:password@host:5432/name, after a ? with sslmode (disable, prefer, require, verify-full), sslrootcert (a \
     path, for verify-full), pooler (true, false) and others that docs/operating.md lists, separated by &";

/// What is no database's address at all may have been meant for anything.
fn why(text: &str) -> Option<String> {
    let error = StoreLocation::parse(text).err()?;
    (error != AddressError::NotOne).then(|| error.to_string())
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
    fn of_an_address_it_is_said_what_is_wrong() {
        let said = (STORE.why)("postgres://me:pw@db/x?sslmode=perhaps").unwrap();
        assert!(said.starts_with("sslmode must be disable"), "{said}");
        assert_eq!((STORE.why)("mysql:x"), None);
    }
}
