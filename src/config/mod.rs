//! Settings of the operator. The table in `keys` describes each of them; parsing, error messages, `--help` and
//! `docs/configuration.md` come from it. A value is the last one given: default, file, variable, flag.

mod client;
mod doc;
mod file;
mod form;
mod keys;
mod profile;
mod secret;
mod sources;

pub use client::{ClientFlags, ClientSettings, load_client};
pub use doc::markdown;
pub use form::{LogFormat, SmtpSecurity, SmtpServer, StoreLocation, UnknownEventTypes};
pub use keys::{KEYS, Key, Mode, Settings};
pub use profile::{Profile, Profiles};
pub use secret::Secret;
pub use sources::{CONFIG_FILE_VARIABLE, ConfigError, Flags, load, program};
