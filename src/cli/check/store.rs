//! Checks of an embedded store: which process uses it, whether its folder can be written and flushed, how much room there
//! is. The store is not changed; a file written beside it is removed again.

use super::CheckLine;
use crate::{
    config::Settings,
    domain::{
        encryption::{EncryptionError, Keyring},
        time::Timestamp,
    },
    store::sqlite::{self, SqliteOpenError},
};
use rustix::fs::{Access, access, statfs, statvfs};
use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::time::Instant;

const STORE_CHECK: &str = "store";
/// Free space wanted above `disk_free_min`, in bytes.
const SPARE_BYTES_WANTED: u64 = 1 << 30;
const FLUSH_TRIES: u32 = 5;
const SLOW_FLUSH: Duration = Duration::from_millis(50);
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// Facts about the store that other checks use.
#[derive(Default)]
pub(super) struct StoreFacts {
    pub(super) user: Option<u32>,
    pub(super) newest_at: Option<Timestamp>,
}

/// Checks whether the given keys decrypt the secrets in the store.
pub(super) fn check_keys(settings: &Settings, path: &Path) -> Option<CheckLine> {
    let encrypted = sqlite::encrypted_values(path);
    let beside = PathBuf::from(format!("{}.encryption-key", path.display()));
    let given = match &settings.encryption_key {
        Some(key) => key.reveal().to_owned(),
        None if encrypted.is_empty() => return None,
        None => fs::read_to_string(&beside).unwrap_or_default(),
    };
    let Ok(keyring) = Keyring::parse(given.trim()) else {
        let said =
            format!("{} secrets are encrypted, and there is no key in {}", encrypted.len(), beside.display());
        return Some(CheckLine::failed(
            "keys",
            said,
            "Set encryption_key, or bring the file back from a backup.",
        ));
    };
    Some(check_keyring(&keyring, &encrypted))
}

/// Checks whether the keyring decrypts all encrypted secrets of a store.
pub(super) fn check_keyring(keyring: &Keyring, encrypted: &[Vec<u8>]) -> CheckLine {
    let missing = |encrypted: &Vec<u8>| match keyring.key_id_of(encrypted) {
        Err(EncryptionError::UnknownKey(id)) => Some(id),
        _ => None,
    };
    let missing: BTreeSet<String> = encrypted.iter().filter_map(missing).collect();
    if !missing.is_empty() {
        let names: Vec<_> = missing.into_iter().collect();
        let said = format!("secrets are encrypted with a key that is not given: {}", names.join(", "));
        let advice = "Add it to encryption_key behind the first one, separated by a comma.";
        return CheckLine::failed("keys", said, advice);
    }
    CheckLine::ok("keys", format!("the encryption key fits all {} secrets in the store", encrypted.len()))
}

pub(super) fn check_store(path: &Path, disk_free_min: u64) -> (StoreFacts, Vec<CheckLine>) {
    let mut seen = StoreFacts { user: sqlite::process_using(path), newest_at: None };
    let mut lines = Vec::new();
    match sqlite::probe(path) {
        Ok(None) => {
            lines.push(CheckLine::ok(STORE_CHECK, format!("{} is made at the first start", path.display())));
        }
        Ok(Some(found)) => {
            seen.newest_at = found.newest_at;
            let used =
                seen.user.map_or("not in use".to_owned(), |process| format!("in use by process {process}"));
            let mib = found.bytes as f64 / f64::from(1 << 20);
            lines.push(CheckLine::ok(STORE_CHECK, format!("{}: {mib:.1} MiB, {used}", path.display())));
        }
        Err(error @ SqliteOpenError::Io { .. }) => {
            lines.push(CheckLine::failed(
                STORE_CHECK,
                error.to_string(),
                "Let the user that runs the server read and write it.",
            ));
        }
        Err(error) => lines.push(CheckLine::failed(
            STORE_CHECK,
            error.to_string(),
            "Name another path, restore a backup, or start the version that wrote it.",
        )),
    }
    let folder = folder_of(path);
    match nearest_existing(&folder) {
        None => {
            let said = format!("{}: there is no such folder, nor any above it", folder.display());
            lines.push(CheckLine::failed(STORE_CHECK, said, "Make the folder."));
        }
        Some(there) => {
            lines.push(check_writable(path, &folder, &there));
            lines.extend(check_free_space(&there, disk_free_min));
        }
    }
    (seen, lines)
}

fn folder_of(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or_else(|| Path::new(".")).to_owned()
}

fn nearest_existing(folder: &Path) -> Option<PathBuf> {
    let above =
        folder.ancestors().map(|above| if above.as_os_str().is_empty() { Path::new(".") } else { above });
    above.into_iter().find(|above| above.is_dir()).map(Path::to_owned)
}

fn check_writable(path: &Path, folder: &Path, there: &Path) -> CheckLine {
    let advice = "Let the user that runs the server write there.";
    if there != folder {
        return match access(there, Access::WRITE_OK | Access::EXEC_OK) {
            Ok(()) => CheckLine::ok(
                STORE_CHECK,
                format!("the folder {} is made at the first start", folder.display()),
            ),
            Err(error) => CheckLine::failed(
                STORE_CHECK,
                format!("{} cannot be written: {error}", there.display()),
                advice,
            ),
        };
    }
    if path.exists() && access(path, Access::READ_OK | Access::WRITE_OK).is_err() {
        return CheckLine::failed(STORE_CHECK, format!("{} cannot be written", path.display()), advice);
    }
    match flush_time(folder) {
        Ok(longest) if longest > SLOW_FLUSH => {
            let said = format!("a flush to the disk took up to {} ms", longest.as_millis());
            CheckLine::warning(
                STORE_CHECK,
                said,
                "Every publish waits for a flush: use a faster disk, or one with a protected cache.",
            )
        }
        Ok(longest) => {
            let ms = longest.as_secs_f64() * 1000.0;
            CheckLine::ok(
                STORE_CHECK,
                format!("its folder can be written, and a flush took at most {ms:.1} ms"),
            )
        }
        Err(error) => {
            CheckLine::failed(STORE_CHECK, format!("{} cannot be written: {error}", folder.display()), advice)
        }
    }
}

/// Returns the longest of a few flushes of a file that is removed again.
fn flush_time(folder: &Path) -> io::Result<Duration> {
    let path = folder.join(format!(".posthaste-check-{}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create_new(true).open(&path)?;
    let mut flush = || {
        let begun = Instant::now();
        file.write_all(&[0; 4096])?;
        file.sync_all()?;
        Ok(begun.elapsed())
    };
    let longest = (0..FLUSH_TRIES)
        .try_fold(Duration::ZERO, |longest, _| flush().map(|took: Duration| longest.max(took)));
    fs::remove_file(&path)?;
    longest
}

fn check_free_space(there: &Path, disk_free_min: u64) -> Vec<CheckLine> {
    let mut lines = Vec::new();
    match statvfs(there) {
        Ok(found) => {
            let free = found.f_bavail.saturating_mul(found.f_frsize);
            let said = format!("{:.1} GiB are free", free as f64 / f64::from(1 << 30));
            let mib = disk_free_min >> 20;
            let advice = format!("Make room: below disk_free_min ({mib} MiB) publishing is answered 507.");
            lines.push(match free {
                _ if free < disk_free_min => CheckLine::failed(STORE_CHECK, said, advice),
                _ if free < disk_free_min.saturating_add(SPARE_BYTES_WANTED) => {
                    CheckLine::warning(STORE_CHECK, said, advice)
                }
                _ => CheckLine::ok(STORE_CHECK, said),
            });
        }
        Err(error) => {
            let said = format!("cannot ask how much is free: {error}");
            lines.push(CheckLine::warning(STORE_CHECK, said, "Look at it yourself."));
        }
    }
    if statfs(there).is_ok_and(|found| found.f_type == TMPFS_MAGIC) {
        let said = format!("{} is in memory (tmpfs)", there.display());
        lines.push(CheckLine::warning(
            STORE_CHECK,
            said,
            "Name a folder on a disk: everything is gone when this machine restarts.",
        ));
    }
    lines
}
