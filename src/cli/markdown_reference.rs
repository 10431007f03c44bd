//! Writes `docs/command-line.md` from the commands themselves. A test fails when the checked-in file differs.

use super::{exit, server_flags};
use crate::config::SETTINGS;
use clap::{Arg, Command};
use std::fmt::Write;

const INTRODUCTION: &str = "\
# The command line

<!-- Made by `cargo run -- command-line-doc > docs/command-line.md`; change `src/cli` instead. -->

Everything that the HTTP API can do, for people and for scripts. `posthaste COMMAND --help` says the same as this page.

## Which server, which key, which app

Commands that talk to a server take `--server`, `--key` and `--app`, or the variables `POSTHASTE_URL`, `POSTHASTE_KEY` and
`POSTHASTE_APP`, or a profile:

    posthaste profile set default --server http://127.0.0.1:8080 --app bakery     # asks for the key
    posthaste profile set production --server https://posthaste.example --key-stdin < key-file
    posthaste deliveries list --profile production --app bakery

Flags beat variables, variables beat the profile. A profile is named by `--profile` or `POSTHASTE_PROFILE`, and is `default`
otherwise. Its key is shown to its own server alone: with another `--server` the key must be given too. The file is
`POSTHASTE_PROFILE_FILE`, else `posthaste/profile.toml` under `XDG_CONFIG_HOME` or `~/.config`; one that holds keys and that others
may read is refused.

    [default]
    url = \"http://127.0.0.1:8080\"
    key = \"phk_…\"
    app = \"bakery\"

## What they print

Tables and fields for people, cut to the width of a terminal and never otherwise. `--json` prints the API's JSON, one document:
of a list `{\"data\": […], \"next_cursor\": …}`, of something that is watched one object a line, and nothing where the API answers
nothing. What is said besides (questions, hints, errors) goes to standard error. Control characters in what a server says are
escaped, so that nobody can drive your terminal.

Lists go on until there are `--limit` rows (50 if not said), whatever the pages of the API; `--all` prints everything, `--cursor`
goes on where another list ended.

Times are RFC 3339, or how long ago (`2h`, `7d`) or ahead (`+2h`) they are. What cannot be undone asks at the terminal; where there is
none it needs `--yes`.

";

/// Flags of nearly every command, like those of the connection; the page explains them once.
const COMMON_FLAGS: [&str; 3] = ["json", "help", "config"];

/// Renders the whole page.
pub(super) fn markdown(root: &Command) -> String {
    let mut page = INTRODUCTION.to_owned();
    for (index, line) in exit::EXIT_CODES_HELP.lines().enumerate() {
        let _ = writeln!(page, "{}", if index == 0 { format!("{line}\n") } else { format!("  {line}") });
    }
    for command in root.get_subcommands().filter(|command| !command.is_hide_set()) {
        describe(&mut page, "##", "posthaste", command);
    }
    page
}

fn describe(page: &mut String, heading: &str, above: &str, command: &Command) {
    let name = format!("{above} {}", command.get_name());
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let _ = write!(page, "\n{heading} {name}\n\n{about}.\n");
    if let Some(help) = command.get_after_help() {
        page.push('\n');
        // The first line is the heading of the examples.
        for line in help.to_string().lines().skip(1) {
            let _ = writeln!(page, "{}{line}", if line.starts_with("  ") { "  " } else { "" });
        }
    }
    let own = |arg: &&Arg| {
        let id = arg.get_id().as_str();
        let is_explained =
            arg.get_help_heading() == Some(server_flags::HEADING) || COMMON_FLAGS.contains(&id);
        !is_explained && !SETTINGS.iter().any(|key| key.name == id)
    };
    let args: Vec<String> = command.get_arguments().filter(own).map(argument).collect();
    if !args.is_empty() {
        let _ = write!(page, "\n{}", args.concat());
    }
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        describe(page, &format!("{heading}#"), &name, inner);
    }
}

fn argument(arg: &Arg) -> String {
    let value = arg
        .get_value_names()
        .map(|names| names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
    let value = value.filter(|_| arg.get_action().takes_values());
    let shown = match (arg.get_long(), value) {
        (Some(long), Some(value)) if arg.is_require_equals_set() => format!("--{long}[={value}]"),
        (Some(long), Some(value)) => format!("--{long} {value}"),
        (Some(long), None) => format!("--{long}"),
        (None, value) => value.unwrap_or_else(|| arg.get_id().as_str().to_uppercase()),
    };
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let must = if arg.is_required_set() && arg.get_long().is_some() { "Required." } else { "" };
    let text = [must, &help].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
    let colon = if text.is_empty() { "" } else { ": " };
    format!("- `{shown}`{colon}{}\n", text.replace('<', "\\<"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::{CommandFactory, Parser};

    fn each(command: &Command, above: &str, look: &mut impl FnMut(&str, &Command)) {
        let name = format!("{above}{}", command.get_name());
        look(&name, command);
        command.get_subcommands().for_each(|inner| each(inner, &format!("{name} "), look));
    }

    /// Splits a line like a shell, as far as the examples need it. Redirections are left out.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut is_quoted) = (Vec::new(), String::new(), false);
        let typed = [" > ", " < ", " | ", "   "]
            .iter()
            .fold(line, |line, mark| line.split(mark).next().unwrap_or(line));
        for c in typed.chars() {
            match c {
                '\'' => is_quoted = !is_quoted,
                ' ' if !is_quoted => {
                    words.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty()));
                }
                other => word.push(other),
            }
        }
        words.extend(Some(word).filter(|word| !word.is_empty()));
        words
    }

    #[test]
    fn the_checked_in_page_is_the_one_that_the_commands_make() {
        let checked_in = include_str!("../../docs/command-line.md");
        assert!(
            checked_in == markdown(&Cli::command()),
            "run `cargo run -- command-line-doc > docs/command-line.md` and read the difference"
        );
    }

    #[test]
    fn every_command_has_an_example_and_every_example_can_be_typed() {
        each(&Cli::command(), "", &mut |name, command| {
            if command.is_hide_set() || command.has_subcommands() && name != "posthaste" {
                return;
            }
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let help = help.replace("\\\n    ", "");
            let examples: Vec<&str> =
                help.lines().filter_map(|line| line.strip_prefix("  posthaste ")).collect();
            assert!(!examples.is_empty(), "{name} has no example");
            for example in examples {
                let typed = words(&format!("posthaste {example}"));
                let refused = Cli::try_parse_from(&typed).err();
                assert!(refused.is_none(), "{name}: {typed:?}: {}", refused.unwrap());
            }
        });
    }
}
