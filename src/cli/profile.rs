//! `posthaste profile`: keeps servers, keys and apps under names. A key is never an argument and is never shown whole again.

use super::{exit::CommandError, print, table::aligned, terminal};
use crate::{
    config::{HiddenText, Profile, Profiles},
    outbound::CliClient,
};
use clap::{Args, Subcommand, builder::NonEmptyStringValueParser};
use serde_json::json;
use std::process::ExitCode;

const KEY_PREFIX_CHARS: usize = 8;

const SET_EXAMPLES: &str = "\
Examples:
  posthaste profile set default --server http://127.0.0.1:8080       (asks for the key)
  posthaste profile set production --server https://posthaste.example --app bakery --key-stdin < key-file
  posthaste profile set production --app cafe

What is not given stays as it is. `default` is used where no other is named with --profile or POSTHASTE_PROFILE.
The file is POSTHASTE_PROFILE_FILE, else posthaste/profile.toml under XDG_CONFIG_HOME or ~/.config.";

#[derive(Debug, Subcommand)]
pub(super) enum ProfileCommand {
    /// Make or change a profile
    Set(SetArgs),
    /// List profiles; of keys only how they begin
    #[command(after_help = "Example:\n  posthaste profile list")]
    List(ListArgs),
    /// Remove a profile, and its key with it
    #[command(after_help = "Example:\n  posthaste profile remove production --yes")]
    Remove(RemoveArgs),
}

#[derive(Debug, Args)]
#[command(after_help = SET_EXAMPLES)]
pub(super) struct SetArgs {
    /// The profile's name
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    name: String,
    /// Where the server is
    #[arg(long, value_name = "URL", value_parser = NonEmptyStringValueParser::new())]
    server: Option<String>,
    /// The app that is meant when none is named
    #[arg(long, value_name = "APP", value_parser = NonEmptyStringValueParser::new())]
    app: Option<String>,
    /// Read the key from standard input; without it a new profile asks for one at the terminal
    #[arg(long)]
    key_stdin: bool,
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct RemoveArgs {
    /// The profile's name
    name: String,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

impl ProfileCommand {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let mut profiles = Profiles::read()?;
        match self {
            Self::Set(args) => set(&mut profiles, args),
            Self::List(args) => Ok(print(&list(&profiles, args.json))),
            Self::Remove(args) => {
                profiles.get(&args.name)?;
                terminal::confirm(&format!("Remove the profile {} and its key?", args.name), args.yes)?;
                profiles.remove(&args.name)?;
                profiles.save()?;
                Ok(print(&format!("removed profile {}\n", args.name)))
            }
        }
    }
}

fn set(profiles: &mut Profiles, args: SetArgs) -> anyhow::Result<ExitCode> {
    let SetArgs { name, server, app, key_stdin } = args;
    let before = profiles.find(&name).cloned();
    let is_new = before.is_none();
    let mut profile = before.unwrap_or_default();
    // A key is for one server: with another address it would be shown to the wrong one.
    let moves = server.is_some() && profile.url.is_some() && server != profile.url;
    if let Some(url) = &server {
        CliClient::new()?
            .target(url)
            .map_err(|error| CommandError::usage(format!("--server {url}: {error}")))?;
    }
    if key_stdin || is_new || moves {
        if !key_stdin && !terminal::is_interactive() {
            return Err(CommandError::usage(
                "there is nobody to ask for the key; give it with --key-stdin; nothing was changed",
            ));
        }
        let key = terminal::hidden_line(&format!("Key for {name}"))?;
        let key = key.trim();
        if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(CommandError::usage(
                "the key must be visible ASCII characters without spaces; nothing was changed",
            ));
        }
        profile.key = Some(HiddenText::new(key));
    }
    profile.url = server.or(profile.url);
    profile.app = app.or(profile.app);
    profiles.set(&name, profile);
    profiles.save()?;
    let path = profiles.path().map(|path| path.display().to_string()).unwrap_or_default();
    Ok(print(&format!("kept profile {name} in {path}\n")))
}

fn list(profiles: &Profiles, is_json: bool) -> String {
    let prefix = |profile: &Profile| {
        // At most a third of the key, or a short key would be shown whole.
        let shown = |key: &HiddenText| {
            key.reveal().chars().take(KEY_PREFIX_CHARS.min(key.reveal().len() / 3)).collect::<String>()
        };
        profile.key.as_ref().map(shown)
    };
    if is_json {
        let shown = profiles.iter().map(|(name, profile)| {
            json!({ "name": name, "url": profile.url, "app": profile.app, "key_prefix": prefix(profile) })
        });
        return format!("{}\n", json!({ "data": shown.collect::<Vec<_>>() }));
    }
    let mut rows = vec![["NAME", "URL", "APP", "KEY"].map(str::to_owned)];
    for (name, profile) in profiles.iter() {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let key = prefix(profile).map(|prefix| prefix + "…").unwrap_or_default();
        rows.push([name.to_owned(), text(&profile.url), text(&profile.app), key]);
    }
    aligned(&rows)
}
