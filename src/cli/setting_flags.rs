//! A flag for every setting, made from the table in `config`, so that `--help` cannot disagree with it.

use crate::config::{SETTINGS, Setting, SettingValues};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, builder::NonEmptyStringValueParser};
use std::sync::LazyLock;

#[derive(Debug)]
pub(super) struct SettingFlags(pub SettingValues);

const CONFIG_FILE: &str = "config";

static LONG_NAMES: LazyLock<Vec<String>> = LazyLock::new(|| SETTINGS.iter().map(Setting::flag).collect());

fn setting_args() -> impl Iterator<Item = Arg> {
    SETTINGS.iter().zip(LONG_NAMES.iter()).map(|(key, long)| {
        let arg = Arg::new(key.name).long(long.as_str()).value_name("VALUE").num_args(1);
        let default = match (key.default, key.dev_default) {
            ("", "") => "not set".to_owned(),
            (same, dev) if same == dev => same.to_owned(),
            ("", dev) => format!("not set; dev: {dev}"),
            (serve, dev) => format!("{serve}; dev: {dev}"),
        };
        let variable = key.variable();
        arg.help(format!("{} [variable: {variable}] [default: {default}]", key.meaning)).long_help(format!(
            "{}\nGive {}.\n[variable: {variable}] [default: {default}]",
            key.meaning, key.allowed
        ))
    })
}

impl Args for SettingFlags {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new(CONFIG_FILE)
            .long("config")
            .value_name("FILE")
            .value_parser(NonEmptyStringValueParser::new())
            .help("A TOML file of settings; variables and flags beat it [variable: POSTHASTE_CONFIG]");
        command.arg(file).args(setting_args())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SettingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |name| matches.get_one::<String>(name).cloned();
        Ok(Self(SettingValues {
            config_file: given(CONFIG_FILE).map(Into::into),
            values: SETTINGS.iter().filter_map(|key| Some((key, given(key.name)?))).collect(),
        }))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_can_be_given_as_a_flag() {
        for key in SETTINGS {
            let command = SettingFlags::augment_args(Command::new("serve"));
            let matches =
                command.get_matches_from(["serve".to_owned(), format!("--{}", key.flag()), "x".to_owned()]);
            let flags = SettingFlags::from_arg_matches(&matches).unwrap().0;
            assert_eq!(flags.values.len(), 1);
            assert_eq!((flags.values[0].0.name, flags.values[0].1.as_str()), (key.name, "x"));
        }
    }

    #[test]
    fn the_help_says_of_every_setting_what_it_means_and_what_it_may_be() {
        let mut command = SettingFlags::augment_args(Command::new("serve")).term_width(10_000);
        let help = command.render_long_help().to_string();
        for key in SETTINGS {
            assert!(help.contains(&format!("--{} ", key.flag())), "{}", key.name);
            assert!(help.contains(key.meaning) && help.contains(key.allowed), "{}", key.name);
            assert!(help.contains(&key.variable()), "{}", key.name);
        }
    }
}
