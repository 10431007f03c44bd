//! The command line. `exit` says what its exit codes mean.

mod api_client;
mod backup;
mod check;
mod completions;
mod contracts;
mod event_types;
mod exit;
mod inspect;
mod listen;
mod logs;
mod markdown_reference;
mod migrate;
mod profile;
mod publish;
mod render;
mod resource;
mod server_flags;
mod setting_flags;
mod table;
mod terminal;
mod verify;

use crate::{
    app,
    config::{self, DefaultsMode, SettingValues, Settings},
};
use anyhow::Context;
use clap::{
    CommandFactory, Parser, Subcommand,
    error::{ContextKind, ContextValue},
};
use exit::ExitStatus;
use setting_flags::SettingFlags;
use std::{
    io::{self, Write},
    process::ExitCode,
};

const EXAMPLES: &str = "\
Examples:
  posthaste dev                                   try it, with a sample app and receiver
  posthaste serve                                 run it, with the defaults
  posthaste serve --config /etc/posthaste.toml    run it, with settings from a file
  POSTHASTE_LISTEN=0.0.0.0:8080 posthaste serve   run it, with settings from the environment
  posthaste profile set default                   keep the key of a server, for the commands below
  posthaste publish order.paid --app shop --data '{\"order\": 17}' --wait
  posthaste deliveries list --app shop --status retrying,dead
  posthaste contracts                             what receivers are promised, and when they are tried again
  posthaste inspect shop ep_01jd2s0a5g000         try out an endpoint's receiver
  posthaste listen --app shop                     receive what an app sends, here, for a while
  posthaste verify --secret-file secret.txt --headers head.txt --body body.json
  posthaste check                                 look at everything before going live
  posthaste openapi > openapi.json                the HTTP API, described

`posthaste serve --help` lists every setting; docs/configuration.md says more about each, docs/command-line.md about commands.";

fn after_help() -> String {
    format!("{EXAMPLES}\n\n{}", exit::EXIT_CODES_HELP)
}

/// Delivers webhooks: publish an event once, and it reaches every endpoint that wants it.
#[derive(Debug, Parser)]
#[command(name = "posthaste", version, after_help = after_help(), subcommand_required = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: CliCommand,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    /// Run the server
    #[command(after_help = "Example:\n  posthaste serve --config /etc/posthaste.toml --listen 0.0.0.0:8080")]
    Serve(SettingFlags),
    /// Run the server with a sample app and a sample receiver, open to this machine's own addresses
    #[command(after_help = "Example:\n  posthaste dev --listen 127.0.0.1:9000")]
    Dev(SettingFlags),
    /// Copy the embedded store to a file, also while it is in use, and check the copy
    Backup(backup::BackupArgs),
    /// Make a store out of a backup
    Restore(backup::RestoreArgs),
    /// Copy a stopped embedded store into a PostgreSQL database, and check the copy
    Migrate(migrate::MigrateArgs),
    /// Publish an event, or a file of them
    Publish(Box<publish::PublishArgs>),
    #[command(flatten)]
    Resource(resource::ResourceCommand),
    /// Keep the catalogue of event types: list, get, import, export, archive, unarchive, delete
    EventTypes(event_types::EventTypesArgs),
    /// Try out which protections an endpoint's receiver has
    Inspect(inspect::InspectArgs),
    /// Receive on a port of this machine: verify what comes, show it, answer as told
    Listen(listen::ListenArgs),
    /// Verify the signature of a request that was received, and explain a mismatch
    Verify(verify::VerifyArgs),
    /// Look at configuration, store, clock, names and limits, before going live
    Check(check::CheckArgs),
    /// Keep addresses and keys of servers under names
    #[command(subcommand)]
    Profile(profile::ProfileCommand),
    /// Print what a shell needs to complete these commands
    Completions(completions::CompletionsArgs),
    /// Print the description of the HTTP API (OpenAPI 3.1, JSON)
    #[command(after_help = "Example:\n  posthaste openapi > openapi.json")]
    Openapi,
    /// Show the contracts, or one in full: bytes, signatures, times of attempts, names
    #[command(after_help = "Examples:\n  posthaste contracts\n  posthaste contracts standard --json")]
    Contracts(contracts::ContractsCommand),
    /// Print docs/configuration.md
    #[command(hide = true)]
    ConfigDoc,
    /// Print docs/contracts.md
    #[command(hide = true)]
    ContractsDoc,
    /// Print docs/command-line.md
    #[command(hide = true, name = "command-line-doc")]
    Reference,
}

/// Runs the command that this process's arguments name.
pub fn run() -> ExitCode {
    match Cli::try_parse() {
        Ok(cli) => run_command(cli.command),
        Err(help_or_error) => {
            let help_or_error = hide_logins(help_or_error);
            // An error of printing is ignored: the terminal may be closed.
            let _ = help_or_error.print();
            if help_or_error.use_stderr() { ExitStatus::Usage.into() } else { ExitCode::SUCCESS }
        }
    }
}

/// Hides logins in arguments that clap would repeat: an address with a login in the wrong place is shown without it.
fn hide_logins(mut error: clap::Error) -> clap::Error {
    for kind in [ContextKind::InvalidArg, ContextKind::InvalidValue, ContextKind::InvalidSubcommand] {
        let Some(ContextValue::String(given)) = error.get(kind) else { continue };
        let Some((scheme, rest)) = given.split_once("://") else { continue };
        if rest.contains(['@', '?']) {
            let shown = format!("{scheme}://…");
            error.insert(kind, ContextValue::String(shown));
        }
    }
    error
}

fn run_command(command: CliCommand) -> ExitCode {
    match command {
        CliCommand::Serve(flags) => run_server(DefaultsMode::Serve, flags.0),
        CliCommand::Dev(flags) => run_server(DefaultsMode::Dev, flags.0),
        CliCommand::Backup(args) => backup::back_up(args),
        CliCommand::Restore(args) => backup::restore(args),
        CliCommand::Migrate(args) => migrate::run(&args),
        CliCommand::Publish(args) => on_runtime(publish::run(*args)),
        CliCommand::Resource(command) => command.run(),
        CliCommand::EventTypes(args) => event_types::run(args),
        CliCommand::Inspect(args) => on_runtime(inspect::run(args)),
        CliCommand::Listen(args) => listen::run(args),
        CliCommand::Verify(args) => verify::run(args),
        CliCommand::Check(args) => check::run(args),
        CliCommand::Profile(command) => command.run().unwrap_or_else(|error| failed(&error)),
        CliCommand::Completions(args) => print(&completions::script(&args, Cli::command())),
        CliCommand::Openapi => print(&crate::api::openapi_json()),
        CliCommand::Contracts(command) => command.run(),
        CliCommand::ConfigDoc => print(&config::markdown()),
        CliCommand::ContractsDoc => {
            contracts::markdown().map_or_else(|error| failed(&error), |page| print(&page))
        }
        CliCommand::Reference => print(&markdown_reference::markdown(&Cli::command())),
    }
}

fn run_server(mode: DefaultsMode, flags: SettingValues) -> ExitCode {
    let settings = match load(mode, flags) {
        Ok(settings) => settings,
        Err(usage) => return usage,
    };
    logs::start(settings.log_format, &settings.log_level);
    let started = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(settings.workers)
        .enable_all()
        .build()
        .context("cannot start the runtime");
    let finished = started.and_then(|runtime| {
        let finished = runtime.block_on(async {
            match mode {
                DefaultsMode::Serve => app::serve(settings).await,
                DefaultsMode::Dev => app::dev(settings).await,
            }
        });
        // Tasks that still run were given up; a look-up that hangs must not keep the process alive.
        runtime.shutdown_background();
        finished
    });
    finished.map_or_else(|error| failed(&error), |()| ExitCode::SUCCESS)
}

/// Loads the settings. Otherwise prints the problems and returns the exit code.
fn load(mode: DefaultsMode, flags: SettingValues) -> Result<Settings, ExitCode> {
    config::load(mode, flags).map_err(|refused| {
        eprintln!("posthaste: the configuration is refused\n{refused}");
        ExitStatus::Usage.into()
    })
}

/// Runs an asynchronous command to its end.
fn on_runtime(work: impl Future<Output = anyhow::Result<ExitCode>>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = runtime.context("cannot start the runtime").and_then(|runtime| {
        let done = runtime.block_on(work);
        // A look-up that hangs must not keep the process alive.
        runtime.shutdown_background();
        done
    });
    done.unwrap_or_else(|error| failed(&error))
}

fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("posthaste: {error:#}");
    ExitStatus::from_error(error).into()
}

fn print(text: &str) -> ExitCode {
    match write_stdout(text) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader closed the pipe: it has read enough.
        Err(closed) if closed.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("posthaste: cannot write the output: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Writes text to standard output. An error means that the reader is gone.
fn write_stdout(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::error::ErrorKind;

    fn refused(args: &[&str]) -> clap::Error {
        Cli::try_parse_from(["posthaste"].iter().chain(args)).unwrap_err()
    }

    #[test]
    fn the_commands_and_flags_do_not_contradict_each_other() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_mistyped_flag_or_command_is_refused_with_the_nearest() {
        let flag = refused(&["serve", "--lisen", "127.0.0.1:1"]).to_string();
        assert!(flag.contains("--listen"), "{flag}");
        let command = refused(&["serv"]).to_string();
        assert!(command.contains("serve"), "{command}");
    }

    #[test]
    fn a_mistyped_flag_does_not_repeat_the_secret_given_with_it() {
        for args in [&["serve", "--adminkey=hunter2"][..], &["serve", "--admin-key=hunter2", "--nonsense"]] {
            let said = refused(args).to_string();
            assert!(!said.contains("hunter2"), "{said}");
        }
    }

    #[test]
    fn an_address_in_the_wrong_place_is_repeated_without_its_password() {
        for address in ["postgres://me:hunter2@db/ph", "postgres:///ph?host=/run&password=hunter2"] {
            for args in
                [&["serve", address][..], &["migrate", address], &[address], &["contracts", "a", address]]
            {
                let said = hide_logins(refused(args)).to_string();
                assert!(said.contains("postgres://…") && !said.contains("hunter2"), "{said}");
            }
        }
    }

    #[test]
    fn no_command_shows_the_help_and_counts_as_a_mistake() {
        let error = refused(&[]);
        assert_eq!(error.kind(), ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand);
        assert!(error.use_stderr());
    }
}
