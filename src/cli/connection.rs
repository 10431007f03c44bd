//! The flags that every command has which talks to a server.

use crate::config::{ClientFlags, Secret};
use clap::Args;
use std::convert::Infallible;

#[derive(Debug, Args)]
#[command(next_help_heading = "Server")]
pub(super) struct Connection {
    /// Where the server is [variable: POSTHASTE_URL] [default: http://127.0.0.1:8080]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// The key to show; better given as a variable, which other users cannot see [variable: POSTHASTE_KEY]
    #[arg(long, value_name = "KEY", value_parser = |key: &str| Ok::<_, Infallible>(Secret::new(key)))]
    key: Option<Secret>,
}

impl Connection {
    pub(super) fn flags(self) -> ClientFlags {
        ClientFlags { server: self.server, key: self.key }
    }
}
