//! Sources of settings, and the messages for wrong ones. The only file that reads the environment.
//!
//! All problems are collected before the settings are refused, and none of them repeats a value that may be a secret.

use super::{
    DefaultsMode, SETTINGS, Setting, Settings, client,
    file::{self, FileEntry},
    parse::ValueFormat,
};
use std::{collections::BTreeMap, fmt, fs, io, path::PathBuf};

/// The variable that names the configuration file; the flag `--config` beats it.
pub const CONFIG_FILE_VARIABLE: &str = "POSTHASTE_CONFIG";
const VARIABLE_PREFIX: &str = "POSTHASTE_";

/// The values from the command line.
#[derive(Debug, Default)]
pub struct SettingValues {
    pub config_file: Option<PathBuf>,
    pub values: Vec<(&'static Setting, String)>,
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read the configuration file {path}: {cause}")]
    Unreadable { path: String, cause: io::Error },
    #[error("cannot write {path}: {cause}")]
    Unwritable { path: String, cause: io::Error },
    /// Each is a sentence of its own.
    #[error("{}", .0.join("\n"))]
    Refused(Vec<String>),
    /// No key for the server was given.
    #[error("{0}")]
    NoKey(String),
}

/// Resolves the settings from the defaults, the file, this process's environment and the flags.
pub fn load(mode: DefaultsMode, flags: SettingValues) -> Result<Settings, ConfigError> {
    let variables: Vec<_> = variables(VARIABLE_PREFIX).collect();
    let named = variables.iter().find(|(name, _)| name == CONFIG_FILE_VARIABLE);
    let path =
        flags.config_file.clone().or_else(|| named.and_then(|(_, path)| path.as_ref()).map(PathBuf::from));
    let file = match path {
        Some(path) => {
            let name = path.display().to_string();
            let text = fs::read_to_string(&path)
                .map_err(|cause| ConfigError::Unreadable { path: name.clone(), cause })?;
            Some((name, text))
        }
        None => None,
    };
    resolve_settings(
        mode,
        file.as_ref().map(|(name, text)| (name.as_str(), text.as_str())),
        variables,
        flags.values,
    )
}

/// Returns the environment variables whose names start with `prefix`. A value that is not UTF-8 is None.
fn variables(prefix: &str) -> impl Iterator<Item = (String, Option<String>)> {
    std::env::vars_os().filter_map(move |(name, value)| {
        let name = name.to_string_lossy().into_owned();
        name.starts_with(prefix).then(|| (name, value.into_string().ok()))
    })
}

/// Returns an environment variable. An empty one, or one that is not UTF-8, counts as absent.
pub(super) fn variable(name: &str) -> Option<String> {
    variables(name)
        .find(|(known, _)| known == name)
        .and_then(|(_, value)| value)
        .filter(|value| !value.is_empty())
}

/// Returns the name under which this program was called.
pub fn program() -> String {
    std::env::args().next().unwrap_or_else(|| "posthaste".to_owned())
}

/// `file` is a name for messages and the text; a variable that is not UTF-8 has no value.
fn resolve_settings(
    mode: DefaultsMode,
    file: Option<(&str, &str)>,
    variables: Vec<(String, Option<String>)>,
    flags: Vec<(&'static Setting, String)>,
) -> Result<Settings, ConfigError> {
    let mut given = GivenSettings::defaults(mode);
    if let Some((name, text)) = file {
        given.add_file(name, text);
    }
    given.add_variables(variables);
    for (key, value) in flags {
        given.set(key, value, ValueSource::Flag);
    }
    let settings = Settings::read(&mut given);
    match settings {
        Some(settings) if given.problems.is_empty() => Ok(settings),
        _ => Err(ConfigError::Refused(given.problems)),
    }
}

enum ValueSource {
    Default,
    File { location: String },
    Variable,
    Flag,
}

/// The last value given for each key, and the problems found so far.
pub(super) struct GivenSettings {
    values: BTreeMap<&'static str, (&'static Setting, String, ValueSource)>,
    problems: Vec<String>,
}

impl GivenSettings {
    fn defaults(mode: DefaultsMode) -> Self {
        let default =
            |key: &'static Setting| (key.name, (key, key.default_in(mode).to_owned(), ValueSource::Default));
        Self { values: SETTINGS.iter().map(default).collect(), problems: vec![] }
    }

    fn set(&mut self, key: &'static Setting, value: String, source: ValueSource) {
        self.values.insert(key.name, (key, value, source));
    }

    fn add_file(&mut self, file_name: &str, text: &str) {
        let entries = match file::entries(text) {
            Ok(entries) => entries,
            Err(broken) => {
                self.problems.push(format!("{file_name}:{}: not valid TOML: {}", broken.line, broken.reason));
                return;
            }
        };
        for FileEntry { name, line, value } in entries {
            let location = format!("{file_name}:{line}");
            match SETTINGS.iter().find(|key| key.name == name) {
                None => {
                    let known = SETTINGS.iter().map(|key| key.name.to_owned());
                    self.refuse_name(&location, "setting", &name, known);
                }
                Some(key) => match value.text(key.is_list) {
                    Some(text) => self.set(key, text, ValueSource::File { location }),
                    None => self.problems.push(format!("{} ({location}): give {}", key.name, key.allowed)),
                },
            }
        }
    }

    fn add_variables(&mut self, variables: Vec<(String, Option<String>)>) {
        for (name, value) in variables {
            let key = SETTINGS.iter().find(|key| key.variable() == name);
            match (key, value) {
                (Some(key), Some(value)) => self.set(key, value, ValueSource::Variable),
                (Some(key), None) => {
                    self.problems.push(format!("{} (variable {name}): the value is not UTF-8", key.name));
                }
                (None, _) if name == CONFIG_FILE_VARIABLE || client::VARIABLES.contains(&name.as_str()) => {}
                (None, _) => {
                    let known =
                        SETTINGS.iter().map(Setting::variable).chain([CONFIG_FILE_VARIABLE.to_owned()]);
                    self.refuse_name("environment", "variable", &name, known);
                }
            }
        }
    }

    fn refuse_name(&mut self, location: &str, what: &str, name: &str, known: impl Iterator<Item = String>) {
        let nearness = |known: &String| strsim::jaro_winkler(known, name);
        let nearest = known.max_by(|a, b| nearness(a).total_cmp(&nearness(b))).unwrap_or_default();
        self.problems.push(format!("{name} ({location}): there is no such {what}; the nearest is {nearest}"));
    }

    /// Reads a key's value. Records the problem and returns None if it is not allowed.
    pub(super) fn read<T>(&mut self, name: &'static str, form: &ValueFormat<T>) -> Option<T> {
        let (key, text, source) = self.values.get(name)?;
        let value = (form.read)(text);
        if value.is_none() {
            let said = if key.is_hidden { "the value".to_owned() } else { format!("{text:?}") };
            let wrong = (form.explain)(text).map_or_else(
                || format!("is not allowed; give {}", key.allowed),
                |why| format!("is not allowed: {why}"),
            );
            self.problems.push(format!("{name} ({}): {said} {wrong}", SourceName(key, source)));
        }
        value
    }
}

/// Formats a source for messages.
struct SourceName<'a>(&'a Setting, &'a ValueSource);

impl fmt::Display for SourceName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            ValueSource::Default => f.write_str("default"),
            ValueSource::File { location } => f.write_str(location),
            ValueSource::Variable => write!(f, "variable {}", self.0.variable()),
            ValueSource::Flag => write!(f, "flag --{}", self.0.flag()),
        }
    }
}

#[cfg(test)]
#[path = "sources_test.rs"]
mod tests;
