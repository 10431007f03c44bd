//! Generates the keys that the settings do not give: once, in files beside the store that only the owner may read.

use super::open_store;
use crate::{
    config::{Settings, StoreLocation},
    domain::encryption::Keyring,
    runtime::Entropy,
};
use anyhow::Context;
use base64::{Engine, engine::general_purpose::STANDARD, engine::general_purpose::URL_SAFE_NO_PAD};
use std::{
    fs::OpenOptions,
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

pub(super) struct AdminKey {
    pub(super) key: String,
    /// The file, if the key was generated just now.
    pub(super) generated_in: Option<PathBuf>,
}

/// Returns the key of the settings, or the one in the file beside the store. Generates that file if it is missing.
pub(super) fn admin_key(settings: &Settings, entropy: &dyn Entropy) -> anyhow::Result<AdminKey> {
    let store = match (&settings.admin_key, &settings.store) {
        (Some(key), _) => return Ok(AdminKey { key: key.reveal().to_owned(), generated_in: None }),
        (None, StoreLocation::Sqlite(path)) => path,
        (None, StoreLocation::Postgres(_)) => return Err(open_store::no_key("admin_key")),
    };
    let path = path_beside(store, "admin-key");
    let (key, made) =
        read_or_generate(&path, || format!("phk_{}", URL_SAFE_NO_PAD.encode(random_key(entropy))))?;
    Ok(AdminKey { key, generated_in: made.then_some(path) })
}

/// Reads or generates the encryption key beside the store. It protects copies of the store alone; a copy of the whole
/// folder has the key with it, which the log says.
pub(super) fn encryption_key_file(store: &Path, entropy: &dyn Entropy) -> anyhow::Result<String> {
    let path = path_beside(store, "encryption-key");
    let (key, made) = read_or_generate(&path, || STANDARD.encode(random_key(entropy)))?;
    if made {
        let path = path.display();
        tracing::warn!(%path, "made a key for secrets at rest; back it up apart from the store, or set encryption_key");
    }
    Ok(key)
}

/// Adds a hint if the missing key is the one in the file beside the store, which is not read once the settings give a
/// key.
pub(super) fn with_hint(error: anyhow::Error, settings: &Settings) -> anyhow::Error {
    let StoreLocation::Sqlite(store) = &settings.store else { return error };
    let path = path_beside(store, "encryption-key");
    let unread = settings.encryption_key.as_ref().and_then(|_| std::fs::read_to_string(&path).ok());
    let keyring = unread.and_then(|text| Keyring::parse(text.trim()).ok());
    match keyring {
        Some(keyring) if error.to_string().contains(&format!("\"{}\"", keyring.primary_id())) => {
            let id = keyring.primary_id();
            let path = path.display();
            anyhow::anyhow!(
                "{error} (\"{id}\" is the key in {path}, which was used before encryption_key was set)"
            )
        }
        _ => error,
    }
}

fn path_beside(store: &Path, name: &str) -> PathBuf {
    let mut path = store.as_os_str().to_owned();
    path.push(".");
    path.push(name);
    PathBuf::from(path)
}

fn random_key(entropy: &dyn Entropy) -> [u8; 32] {
    let mut bytes = [0; 32];
    entropy.fill(&mut bytes);
    bytes
}

fn read_or_generate(path: &Path, make: impl FnOnce() -> String) -> anyhow::Result<(String, bool)> {
    let about = || path.display().to_string();
    match OpenOptions::new().read(true).open(path) {
        Ok(mut file) => {
            let mut text = String::new();
            file.read_to_string(&mut text).with_context(about)?;
            return Ok((text.trim().to_owned(), false));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(about),
    }
    let key = make();
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).with_context(about)?;
    file.write_all(format!("{key}\n").as_bytes()).and_then(|()| file.sync_all()).with_context(about)?;
    Ok((key, true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::SeededEntropy;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_is_made_once_and_only_its_owner_may_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("p.db");
        let first = encryption_key_file(&store, &SeededEntropy::new(1)).unwrap();
        let second = encryption_key_file(&store, &SeededEntropy::new(2)).unwrap();
        assert_eq!(first, second);
        // The name is the same in every version: a missing file would be made anew, and no secret decrypted.
        let path = folder.path().join("p.db.encryption-key");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_to_string(path).unwrap().trim(), first);
        assert!(crate::domain::encryption::Keyring::parse(&first).is_ok());
    }
}
