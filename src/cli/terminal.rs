//! The terminal: its width, questions, and input that must not be seen.

use super::exit::{CommandError, ExitStatus};
use anyhow::Context;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::{self, BufRead, IsTerminal, Read};

/// Returns the width of the output in characters, if it is a terminal that reports one.
pub(super) fn columns() -> Option<usize> {
    let out = io::stdout();
    let size = out.is_terminal().then(|| tcgetwinsize(&out).ok()).flatten()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Returns only if the user agrees: beforehand, with `--yes`, or now, at the terminal.
pub(super) fn confirm(question: &str, is_agreed: bool) -> anyhow::Result<()> {
    if is_agreed {
        return Ok(());
    }
    if !is_interactive() {
        return Err(CommandError::usage(format!("{question} There is nobody to ask; if so, give --yes.")));
    }
    eprint!("{question} [y/N] ");
    if matches!(line()?.trim().to_lowercase().as_str(), "y" | "yes") {
        return Ok(());
    }
    Err(CommandError::with_exit(ExitStatus::Failed, "nothing was done"))
}

/// Reads a line: hidden while it is typed at a terminal, otherwise from standard input.
pub(super) fn hidden_line(question: &str) -> anyhow::Result<String> {
    if !is_interactive() {
        return line();
    }
    let input = io::stdin();
    let before = tcgetattr(&input).context("cannot hide what is typed")?;
    let mut hidden = before.clone();
    // Ctrl-C must not leave the terminal without echo: it is read as a character, which ends the input.
    hidden.local_modes.remove(LocalModes::ECHO | LocalModes::ISIG | LocalModes::ICANON);
    tcsetattr(&input, OptionalActions::Flush, &hidden).context("cannot hide what is typed")?;
    eprint!("{question}: ");
    let typed = secret_line();
    eprintln!();
    tcsetattr(&input, OptionalActions::Now, &before).context("cannot show again what is typed")?;
    typed
}

pub(super) fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Reads a line character by character, and handles backspace, Ctrl-C and Ctrl-D itself.
fn secret_line() -> anyhow::Result<String> {
    let mut typed = Vec::new();
    for byte in io::stdin().lock().bytes() {
        match byte.context("cannot read the terminal")? {
            b'\n' | b'\r' => break,
            // Ctrl-C, Ctrl-D
            3 | 4 => return Err(CommandError::with_exit(ExitStatus::Failed, "nothing was done")),
            8 | 127 => drop(typed.pop()),
            other => typed.push(other),
        }
    }
    Ok(String::from_utf8_lossy(&typed).into_owned())
}

fn line() -> anyhow::Result<String> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).context("cannot read standard input")?;
    Ok(line.trim_end_matches(['\n', '\r']).to_owned())
}
