//! Who sits at the terminal, if anybody: how wide it is, questions, and answers that must not be seen.

use super::exit::{Exit, Failure};
use anyhow::Context;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::{self, BufRead, IsTerminal, Read};

/// How many characters a line of the output has room for, where it is a terminal that says so.
pub(super) fn columns() -> Option<usize> {
    let out = io::stdout();
    let size = out.is_terminal().then(|| tcgetwinsize(&out).ok()).flatten()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Goes on only if somebody agrees: beforehand, with `--yes`, or now, at the terminal.
pub(super) fn confirm(question: &str, is_agreed: bool) -> anyhow::Result<()> {
    if is_agreed {
        return Ok(());
    }
    if !somebody_is_there() {
        return Err(Failure::usage(format!("{question} There is nobody to ask; if so, give --yes.")));
    }
    eprint!("{question} [y/N] ");
    if matches!(line()?.trim().to_lowercase().as_str(), "y" | "yes") {
        return Ok(());
    }
    Err(Failure::with(Exit::Failed, "nothing was done"))
}

/// A line that is typed without being shown, or, without a terminal, read from standard input.
pub(super) fn hidden_line(question: &str) -> anyhow::Result<String> {
    if !somebody_is_there() {
        return line();
    }
    let input = io::stdin();
    let before = tcgetattr(&input).context("cannot hide what is typed")?;
    let mut hidden = before.clone();
    // Ctrl-C must not leave the terminal as it is now: it comes as a character, and nothing is done.
    hidden.local_modes.remove(LocalModes::ECHO | LocalModes::ISIG | LocalModes::ICANON);
    tcsetattr(&input, OptionalActions::Flush, &hidden).context("cannot hide what is typed")?;
    eprint!("{question}: ");
    let typed = secret_line();
    eprintln!();
    tcsetattr(&input, OptionalActions::Now, &before).context("cannot show again what is typed")?;
    typed
}

pub(super) fn somebody_is_there() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Character by character: what edits a line and what breaks it off is done here.
fn secret_line() -> anyhow::Result<String> {
    let mut typed = Vec::new();
    for byte in io::stdin().lock().bytes() {
        match byte.context("cannot read the terminal")? {
            b'\n' | b'\r' => break,
            // Ctrl-C, Ctrl-D
            3 | 4 => return Err(Failure::with(Exit::Failed, "nothing was done")),
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
