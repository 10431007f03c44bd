//! Writes `docs/configuration.md` from the table of settings. A test fails when the checked-in file differs.

use super::{CONFIG_FILE_VARIABLE, SETTINGS, Setting};
use std::fmt::Write;

const INTRODUCTION: &str = "\
# Configuration

<!-- Made by `cargo run -- config-doc > docs/configuration.md`; change `crates/config/src/settings.rs` instead. -->

Every setting can be given in a TOML file, as an environment variable or as a flag of `posthaste serve` and
`posthaste dev`. Each of these beats the one before it, and all of them beat the default. Names that do not exist and
values that are not allowed are refused at the start, with the place they came from and what would be allowed.
";

const FILE: &str = "
    # posthaste.toml
    listen = \"0.0.0.0:8080\"
    store = \"sqlite:/var/lib/posthaste/posthaste.db\"
    allow_addresses = [\"10.1.0.0/16\"]

Keep `admin_key`, `encryption_key` and `smtp_password` out of files that others can read, and out of flags, which other users of the
machine can see. An optional setting with an empty value is not set. Of other variables only `NO_COLOR` counts, for
log lines on a terminal: neither proxy variables nor `RUST_LOG` have any effect.
";

const CLIENTS: &str = "
## Commands that talk to a server

`posthaste publish`, `deliveries`, `inspect` and the like ([command-line.md](command-line.md)) ask a running server.
`POSTHASTE_URL` or `--server` says where it is (default `http://127.0.0.1:8080`), `POSTHASTE_KEY` or `--key` which key to show
(an app key is enough for its own app), `POSTHASTE_APP` or `--app` which app is meant. All three may be kept in a profile:
`POSTHASTE_PROFILE` or `--profile` names it, `POSTHASTE_PROFILE_FILE` the file. Flags beat variables, variables beat the profile.
Servers ignore these variables; proxy variables have no effect here either, and `NO_COLOR` keeps the output plain.
";

/// Renders the whole page.
pub fn markdown() -> String {
    let mut page = INTRODUCTION.to_owned();
    let _ = write!(
        page,
        "\nThe file is named by the flag `--config` or the variable `{CONFIG_FILE_VARIABLE}`; none is looked for otherwise.\n{FILE}",
    );
    page.push_str("\n| setting | variable | flag | default | read by |\n|---|---|---|---|---|\n");
    for key in SETTINGS {
        let (name, variable, flag, reader) = (key.name, key.variable(), key.flag(), key.reader);
        let _ = writeln!(
            page,
            "| [`{name}`](#{name}) | `{variable}` | `--{flag}` | {} | {reader} |",
            default_of(key)
        );
    }
    for key in SETTINGS {
        let _ = write!(page, "\n## {}\n\n{} Allowed: {}.\n", key.name, key.meaning, key.allowed);
    }
    page.push_str(CLIENTS);
    page
}

fn default_of(key: &Setting) -> String {
    let shown = |text: &str| if text.is_empty() { "not set".to_owned() } else { format!("`{text}`") };
    if key.default == key.dev_default {
        shown(key.default)
    } else {
        format!("{}; `dev`: {}", shown(key.default), shown(key.dev_default))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_checked_in_page_is_the_one_the_table_makes() {
        let checked_in = include_str!("../../../docs/configuration.md");
        assert!(
            checked_in == super::markdown(),
            "run `cargo run -- config-doc > docs/configuration.md` and read the difference"
        );
    }
}
