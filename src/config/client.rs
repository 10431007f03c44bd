//! Settings of the commands that talk to a running server: where it is and which key to show.
//!
//! They come from flags and variables alone. Variables of the server may stand beside them and are not looked at.

use super::{
    secret::Secret,
    sources::{ConfigError, variables},
};

/// Variables that `serve` and `dev` leave to other commands.
pub(super) const VARIABLES: [&str; 2] = [URL, KEY];
const URL: &str = "POSTHASTE_URL";
const KEY: &str = "POSTHASTE_KEY";
const URL_DEFAULT: &str = "http://127.0.0.1:8080";

/// What the command line gave.
#[derive(Debug, Default)]
pub struct ClientFlags {
    pub server: Option<String>,
    pub key: Option<Secret>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSettings {
    /// Without a slash at its end.
    pub server: String,
    pub key: Secret,
    /// Nobody asked for plain text.
    pub may_colour: bool,
}

/// Resolves the settings from this process's environment and the flags, which beat it.
pub fn load_client(flags: ClientFlags) -> Result<ClientSettings, ConfigError> {
    resolve(flags, |name| variables(name).find(|(known, _)| known == name).and_then(|(_, value)| value))
}

fn resolve(
    flags: ClientFlags,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<ClientSettings, ConfigError> {
    let given = |name| variable(name).filter(|value| !value.is_empty());
    let server = flags.server.or_else(|| given(URL)).unwrap_or_else(|| URL_DEFAULT.to_owned());
    let refused = |text: String| ConfigError::Refused(vec![text]);
    let key = flags
        .key
        .or_else(|| given(KEY).map(Secret::new))
        .ok_or_else(|| refused(format!("there is no key: give one with --key or the variable {KEY}")))?;
    if key.reveal().is_empty() || !key.reveal().bytes().all(|byte| byte.is_ascii_graphic()) {
        let form = "visible ASCII characters without spaces";
        return Err(refused(format!("key (--key or variable {KEY}): the value is not allowed; give {form}")));
    }
    let may_colour = given("NO_COLOR").is_none();
    Ok(ClientSettings { server: server.trim_end_matches('/').to_owned(), key, may_colour })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(flags: ClientFlags, variables: &[(&str, &str)]) -> Result<ClientSettings, String> {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
        resolve(flags, |name| find(name).map(|(_, value)| (*value).to_owned()))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn flags_beat_variables_and_the_server_has_a_default() {
        let flags = || ClientFlags { server: Some("https://a/".into()), key: Some(Secret::new("k")) };
        let variables = [("POSTHASTE_URL", "https://b"), ("POSTHASTE_KEY", "v"), ("NO_COLOR", "1")];
        let settings = resolved(flags(), &variables).unwrap();
        assert_eq!((settings.server.as_str(), settings.key.reveal()), ("https://a", "k"));
        assert!(!settings.may_colour);
        let settings = resolved(ClientFlags::default(), &variables).unwrap();
        assert_eq!((settings.server.as_str(), settings.key.reveal()), ("https://b", "v"));
        let settings = resolved(ClientFlags::default(), &variables[1..2]).unwrap();
        assert_eq!((settings.server.as_str(), settings.may_colour), (URL_DEFAULT, true));
    }

    #[test]
    fn without_a_key_or_with_one_that_cannot_be_sent_it_says_so_and_never_repeats_it() {
        let refused = resolved(ClientFlags::default(), &[("POSTHASTE_KEY", "")]).unwrap_err();
        assert!(refused.contains("--key") && refused.contains("POSTHASTE_KEY"), "{refused}");
        let refused = resolved(ClientFlags::default(), &[("POSTHASTE_KEY", "hunter2\r\nx: y")]).unwrap_err();
        assert!(refused.contains("without spaces") && !refused.contains("hunter2"), "{refused}");
    }
}
