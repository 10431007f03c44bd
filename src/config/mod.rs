//! Settings of the operator. The table in `keys` describes each of them; parsing, error messages, `--help` and
//! `docs/configuration.md` come from it. A value is the last one given: default, file, variable, flag.

mod client;
mod markdown;
mod file;
mod parse;
mod settings;
mod profile;
mod secret;
mod sources;

pub use client::{ClientFlags, ClientSettings, load_client};
pub use markdown::markdown;
pub use parse::{LogFormat, SmtpSecurity, SmtpServer, StoreLocation, UnknownEventTypes};
pub use settings::{KEYS, Setting, DefaultsMode, Settings};
pub use profile::{Profile, Profiles};
pub use secret::HiddenText;
pub use sources::{CONFIG_FILE_VARIABLE, ConfigError, SettingValues, load, program};
