//! Commands that are operations of the API: `apps list`, `deliveries retry` and the like. All of them share this code;
//! their differences are in the table of operations and in the API's own description.

mod api_description;
mod execute;
mod field_value;
mod listing;
mod operations;
mod wait;

pub(super) use field_value::read_time;
pub(super) use wait::{WaitResult, poll_until};

use super::server_flags::{AppFlag, ServerFlags};
use crate::domain::time::{DURATION_FORM, parse_duration};
use api_description::{OperationParameters, Parameter};
use clap::{
    Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, Subcommand,
    builder::NonEmptyStringValueParser,
    error::{Error, ErrorKind},
    value_parser,
};
use field_value::FieldKind;
use operations::{AfterAnswer, ApiOperation, GROUPS, OPERATIONS};
use std::{process::ExitCode, sync::LazyLock, time::Duration};

/// A command of the table with its arguments.
#[derive(Debug)]
pub(super) struct ResourceCommand {
    entry: &'static CommandEntry,
    matches: ArgMatches,
}

/// A row of the table with the API's description of it.
#[derive(Debug)]
struct CommandEntry {
    operation: &'static ApiOperation,
    described: OperationParameters,
}

static COMMAND_ENTRIES: LazyLock<Vec<CommandEntry>> = LazyLock::new(|| {
    let entry = |operation: &'static ApiOperation| {
        let described = OperationParameters::read(operation.method, operation.path)?;
        Some(CommandEntry { operation, described })
    };
    OPERATIONS.iter().filter_map(entry).collect()
});

const LIMIT_DEFAULT: u64 = 50;
const WAIT_DEFAULT: &str = "5m";
const ALL_FLAG: &str = "all";
const EVERY_APP_FLAG: &str = "every-app";
const JSON_FLAG: &str = "json";
const LIMIT_FLAG: &str = "limit";
const UNSET_FLAG: &str = "unset";
const WAIT_FLAG: &str = "wait";
const WATCH_FLAG: &str = "watch";
const YES_FLAG: &str = "yes";

impl ResourceCommand {
    pub(super) fn run(self) -> ExitCode {
        super::on_runtime(execute::execute(self.entry, self.matches))
    }
}

impl CommandEntry {
    /// Whether the command is about the app itself, and not only about something in it.
    fn is_about_an_app(&self) -> bool {
        self.operation.path.ends_with("{app}")
    }

    /// Whether the app is given as a flag: it is in the path, or a field of the body.
    fn has_app_flag(&self) -> bool {
        let is_inside = self.operation.path.contains("{app}") && !self.is_about_an_app();
        is_inside || self.described.body.iter().any(|field| field.name == "app_id")
    }

    /// Returns the ids to be named, in the order of the path.
    fn ids(&self) -> impl Iterator<Item = &Parameter> {
        self.described.path.iter().filter(|field| field.name != "app" || self.is_about_an_app())
    }

    /// Returns the fields that are flags. The app has a flag of its own.
    fn flags(&self) -> impl Iterator<Item = &Parameter> {
        let fields = self.described.query.iter().chain(&self.described.body);
        fields.filter(|field| field.name != "app_id")
    }

    fn needs_confirmation(&self) -> bool {
        self.operation.question.is_some() || self.operation.follow == AfterAnswer::NewReplay
    }

    fn command(&'static self) -> Command {
        let ApiOperation { group, name, about, example, .. } = self.operation;
        let example = format!("posthaste {group} {name} {example}");
        let mut command =
            Command::new(*name).about(*about).after_help(format!("Example:\n  {}", example.trim()));
        for field in self.ids() {
            let thing = Arg::new(&*field.label).value_name(&*field.label).help(&*field.help);
            command = command.arg(thing.required(true).value_parser(NonEmptyStringValueParser::new()));
        }
        command = command.args(self.flags().map(flag)).args(self.extra_flags());
        if self.has_app_flag() {
            command = AppFlag::augment_args(command);
        }
        // Last, because `augment_args` replaces the command's text with that of the struct.
        ServerFlags::augment_args(command).about(*about)
    }

    /// Returns the flags that the command line adds to the API's fields.
    fn extra_flags(&'static self) -> Vec<Arg> {
        let flag = |name: &'static str, help: &'static str| {
            Arg::new(name).long(name).help(help).action(ArgAction::SetTrue)
        };
        let mut all = vec![flag(JSON_FLAG, "Print the API's JSON, for programs")];
        if self.described.is_list() {
            all.push(flag(ALL_FLAG, "Print the whole list").conflicts_with(LIMIT_FLAG));
        }
        if self.operation.all_apps_path().is_some() {
            all.push(
                flag(EVERY_APP_FLAG, "In all apps, even if one is meant otherwise").conflicts_with("app"),
            );
        }
        if self.needs_confirmation() {
            all.push(flag(YES_FLAG, "Do not ask"));
        }
        if self.operation.follow == AfterAnswer::NewReplay {
            all.push(flag(WATCH_FLAG, "Show how it goes until it is over").conflicts_with("dry_run"));
        }
        if self.operation.follow == AfterAnswer::Delivery {
            all.push(wait_flag("Wait until it has ended, at most so long"));
        }
        let nullable: Vec<&'static str> =
            self.flags().filter(|field| field.is_nullable).map(|field| &*field.flag).collect();
        if self.operation.method == "PATCH" && !nullable.is_empty() {
            let unset = Arg::new(UNSET_FLAG)
                .long(UNSET_FLAG)
                .value_name("FIELD")
                .value_delimiter(',')
                .value_parser(nullable);
            all.push(unset.action(ArgAction::Append).help("Take the field away"));
        }
        all
    }
}

/// Builds the flag `--wait`, or `--wait=LIMIT`.
pub(super) fn wait_flag(help: &'static str) -> Arg {
    let read = |text: &str| parse_duration(text).ok_or_else(|| format!("give {DURATION_FORM}"));
    let flag = Arg::new(WAIT_FLAG).long(WAIT_FLAG).value_name("LIMIT").num_args(0..=1).require_equals(true);
    flag.default_missing_value(WAIT_DEFAULT)
        .value_parser(read)
        .help(format!("{help} [{WAIT_DEFAULT} if not said]"))
}

pub(super) fn wait_limit(given: &ArgMatches) -> Option<Duration> {
    given.get_one::<Duration>(WAIT_FLAG).copied()
}

fn flag(field: &'static Parameter) -> Arg {
    let arg = Arg::new(&*field.name).long(&*field.flag).required(field.is_required);
    if field.name == LIMIT_FLAG {
        let help = format!("How many to print; pages are fetched as needed [default: {LIMIT_DEFAULT}]");
        return arg.value_name("NUMBER").value_parser(value_parser!(u64).range(1..)).help(help);
    }
    let help = [field.help.as_str(), field.kind.input_form()].join(" ");
    let arg = arg.value_name(field.kind.value_name()).help(help.trim().to_owned());
    match field.kind {
        FieldKind::Switch => arg
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .value_parser(["true", "false"]),
        FieldKind::List | FieldKind::Object { .. } => arg.action(ArgAction::Append),
        FieldKind::Text | FieldKind::Hidden | FieldKind::Time | FieldKind::Number | FieldKind::Json => arg,
    }
}

impl FromArgMatches for ResourceCommand {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let (group, inner) = matches.subcommand().ok_or_else(|| Error::new(ErrorKind::MissingSubcommand))?;
        let (name, given) = inner.subcommand().ok_or_else(|| Error::new(ErrorKind::MissingSubcommand))?;
        let is_meant = |entry: &&CommandEntry| (entry.operation.group, entry.operation.name) == (group, name);
        let entry =
            COMMAND_ENTRIES.iter().find(is_meant).ok_or_else(|| Error::new(ErrorKind::InvalidSubcommand))?;
        Ok(Self { entry, matches: given.clone() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Subcommand for ResourceCommand {
    fn augment_subcommands(command: Command) -> Command {
        let of_group =
            |name: &'static str| COMMAND_ENTRIES.iter().filter(move |entry| entry.operation.group == name);
        command.subcommands(GROUPS.iter().map(|(name, about)| {
            let group =
                Command::new(*name).about(*about).subcommand_required(true).arg_required_else_help(true);
            group.subcommands(of_group(name).map(CommandEntry::command))
        }))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        GROUPS.iter().any(|(group, _)| *group == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Operations without a row in the table, and the command that covers each.
    const ELSEWHERE: &[(&str, &str)] = &[
        ("GET /livez", "curl: for probes"),
        ("GET /readyz", "curl: for probes"),
        ("GET /metrics", "curl: for Prometheus"),
        ("GET /openapi.json", "posthaste openapi"),
        ("GET /v1/apps/{app}/stream", "curl -N: it goes on until someone ends it"),
        ("GET /v1/audit", "posthaste audit list --every-app"),
        ("GET /v1/notices", "posthaste notices list --every-app"),
        ("GET /v1/stats", "posthaste stats show --every-app"),
        ("GET /v1/stream", "curl -N: it goes on until someone ends it"),
        ("GET /v1/contracts", "posthaste contracts"),
        ("GET /v1/contracts/{contract}", "posthaste contracts NAME"),
        ("POST /v1/apps/{app}/endpoints/{endpoint}/inspect", "posthaste inspect"),
        ("POST /v1/apps/{app}/events", "posthaste publish"),
        ("POST /v1/apps/{app}/events/batch", "posthaste publish --batch"),
    ];

    #[test]
    fn every_operation_of_the_api_has_a_command_and_every_command_an_operation() {
        let routes = api_description::routes();
        for operation in OPERATIONS {
            let route = format!("{} {}", operation.method, operation.path);
            assert!(routes.contains(&route), "{} {}: {route}", operation.group, operation.name);
        }
        let row =
            |route: &String| OPERATIONS.iter().any(|one| format!("{} {}", one.method, one.path) == *route);
        let elsewhere = |route: &String| ELSEWHERE.iter().any(|(known, _)| known == route);
        // These have commands of their own.
        let of_types = |route: &String| route.contains(" /v1/event-types");
        let forgotten: Vec<_> =
            routes.iter().filter(|route| !row(route) && !elsewhere(route) && !of_types(route)).collect();
        assert!(forgotten.is_empty(), "add a row to OPERATIONS, or a reason to ELSEWHERE: {forgotten:?}");
    }

    #[test]
    fn every_group_has_commands_and_every_command_a_group() {
        for (group, _) in GROUPS {
            assert!(COMMAND_ENTRIES.iter().any(|entry| entry.operation.group == *group), "{group}");
        }
        for entry in COMMAND_ENTRIES.iter() {
            assert!(ResourceCommand::has_subcommand(entry.operation.group), "{}", entry.operation.group);
        }
    }
}
