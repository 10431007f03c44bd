//! Flags of every command that talks to a server.

use crate::config::{ClientFlags, HiddenText};
use clap::{Args, builder::NonEmptyStringValueParser};
use std::convert::Infallible;

/// The heading of these flags in the help.
pub(super) const HEADING: &str = "Server";

#[derive(Debug, Args)]
#[command(next_help_heading = HEADING)]
pub(super) struct ServerFlags {
    /// Where the server is [variable: POSTHASTE_URL] [default: http://127.0.0.1:8080]
    #[arg(long, global = true, value_name = "URL")]
    server: Option<String>,
    /// The key to show; better kept in a profile or a variable, which other users cannot see [variable: POSTHASTE_KEY]
    #[arg(long, global = true, value_name = "KEY", value_parser = |key: &str| Ok::<_, Infallible>(HiddenText::new(key)))]
    key: Option<HiddenText>,
    /// A profile of `posthaste profile` with all of these [variable: POSTHASTE_PROFILE] [default: default]
    #[arg(long, global = true, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    profile: Option<String>,
}

impl ServerFlags {
    pub(super) fn client_flags(self, app: Option<String>) -> ClientFlags {
        let Self { server, key, profile } = self;
        ClientFlags { server, key, app, profile }
    }
}

/// The flag of commands that are about one app.
#[derive(Debug, Args)]
pub(super) struct AppFlag {
    /// The app's id [variable: POSTHASTE_APP]
    #[arg(long, value_name = "APP", help_heading = HEADING, value_parser = NonEmptyStringValueParser::new())]
    pub app: Option<String>,
}
