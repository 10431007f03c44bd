//! `posthaste completions`: scripts with which a shell completes commands and flags.

use clap::{Args, Command};
use clap_complete::{Shell, generate};

const EXAMPLES: &str = "\
Examples:
  posthaste completions bash > /etc/bash_completion.d/posthaste
  posthaste completions zsh > ~/.zfunc/_posthaste
  posthaste completions fish > ~/.config/fish/completions/posthaste.fish";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct CompletionsArgs {
    /// For which shell
    shell: Shell,
}

/// Renders the script for the shell.
pub(super) fn script(args: &CompletionsArgs, mut command: Command) -> String {
    let mut script = Vec::new();
    generate(args.shell, &mut command, "posthaste", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}
