//! Settings of the operator. The table in `settings` describes each of them; parsing, error messages, `--help` and
//! `docs/configuration.md` come from it. A value is the last one given: default, file, variable, flag.

mod client;
mod file;
mod markdown;
mod parse;
mod profile;
mod secret;
mod settings;
mod sources;

pub use client::{ClientFlags, ClientSettings, load_client};
pub use markdown::markdown;
pub use parse::{LogFormat, SmtpSecurity, SmtpServer, StoreLocation, UnknownEventTypes};
pub use profile::{Profile, Profiles};
pub use secret::HiddenText;
pub use settings::{DefaultsMode, SETTINGS, Setting, Settings};
pub use sources::{CONFIG_FILE_VARIABLE, ConfigError, SettingValues, load, program};
