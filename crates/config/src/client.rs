//! Settings of the commands that talk to a running server: its URL, the key, and the default app.
//!
//! Flags beat variables, variables beat the profile. The server's own variables are ignored here.

use super::{
    profile::{self, Profile, Profiles},
    secret::HiddenText,
    sources::{ConfigError, variable},
};

/// Variables of other commands, which `serve` and `dev` ignore.
pub(super) const VARIABLES: [&str; 5] =
    [URL_VARIABLE, KEY_VARIABLE, APP_VARIABLE, PROFILE_VARIABLE, profile::PROFILE_FILE_VARIABLE];
const URL_VARIABLE: &str = "POSTHASTE_URL";
const KEY_VARIABLE: &str = "POSTHASTE_KEY";
const APP_VARIABLE: &str = "POSTHASTE_APP";
const PROFILE_VARIABLE: &str = "POSTHASTE_PROFILE";
const URL_DEFAULT: &str = "http://127.0.0.1:8080";
const PROFILE_DEFAULT: &str = "default";

/// The values from the command line.
#[derive(Debug, Default)]
pub struct ClientFlags {
    pub server: Option<String>,
    pub key: Option<HiddenText>,
    pub app: Option<String>,
    pub profile: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSettings {
    /// Without a slash at its end.
    pub server: String,
    pub key: HiddenText,
    /// The default app.
    pub app: Option<String>,
    /// False if the variable NO_COLOR asks for plain text.
    pub may_colour: bool,
}

impl ClientSettings {
    /// Returns the app. Fails if none is set.
    pub fn app(&self) -> Result<&str, ConfigError> {
        let text = || {
            format!(
                "which app? Give --app or the variable {APP_VARIABLE}, or keep one with `posthaste profile set`"
            )
        };
        self.app.as_deref().ok_or_else(|| ConfigError::Refused(vec![text()]))
    }
}

/// Resolves the settings from this process's environment, the profile file and the flags.
pub fn load_client(flags: ClientFlags) -> Result<ClientSettings, ConfigError> {
    resolve_client(flags, variable, &Profiles::read()?)
}

fn resolve_client(
    flags: ClientFlags,
    variable: impl Fn(&str) -> Option<String>,
    profiles: &Profiles,
) -> Result<ClientSettings, ConfigError> {
    let chosen = flags.profile.or_else(|| variable(PROFILE_VARIABLE));
    let profile = match &chosen {
        Some(name) => profiles.get(name)?.clone(),
        None => profiles.find(PROFILE_DEFAULT).cloned().unwrap_or_default(),
    };
    let name = chosen.as_deref().unwrap_or(PROFILE_DEFAULT);
    let app = flags.app.or_else(|| variable(APP_VARIABLE)).or_else(|| profile.app.clone());
    let server = flags.server.or_else(|| variable(URL_VARIABLE));
    let key = match flags.key.or_else(|| variable(KEY_VARIABLE).map(HiddenText::new)) {
        Some(key) => key,
        None => key_of(name, &profile, server.as_deref())?,
    };
    if !is_sendable(&key) {
        let form = "visible ASCII characters without spaces";
        let text =
            format!("key (--key, variable {KEY_VARIABLE} or profile): the value is not allowed; give {form}");
        return Err(ConfigError::Refused(vec![text]));
    }
    let server = server.or(profile.url).unwrap_or_else(|| URL_DEFAULT.to_owned());
    let may_colour = variable("NO_COLOR").is_none();
    Ok(ClientSettings { server: without_slash(&server).to_owned(), key, app, may_colour })
}

/// Returns the profile's key. Fails if it would go to another server than the profile's.
fn key_of(name: &str, profile: &Profile, server: Option<&str>) -> Result<HiddenText, ConfigError> {
    let refused = |text: String| Err(ConfigError::Refused(vec![text]));
    let own = profile.url.as_deref().unwrap_or(URL_DEFAULT);
    match (&profile.key, server) {
        (None, _) => Err(ConfigError::NoKey(format!(
            "there is no key: give one with --key or the variable {KEY_VARIABLE}, or keep one with `posthaste profile set {name}`"
        ))),
        (Some(_), Some(other)) if without_slash(own) != without_slash(other) => refused(format!(
            "the key of profile `{name}` is for {own} and is not shown to {other}; give the key too, with --key or the variable {KEY_VARIABLE}"
        )),
        (Some(key), _) => Ok(key.clone()),
    }
}

fn without_slash(server: &str) -> &str {
    server.trim_end_matches('/')
}

/// Whether the key can be sent in a header.
fn is_sendable(key: &HiddenText) -> bool {
    !key.reveal().is_empty() && key.reveal().bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(
        flags: ClientFlags,
        variables: &[(&str, &str)],
        profiles: &Profiles,
    ) -> Result<ClientSettings, String> {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
        resolve_client(flags, |name| find(name).map(|(_, value)| (*value).to_owned()), profiles)
            .map_err(|error| error.to_string())
    }

    fn profiles() -> Profiles {
        let mut profiles = Profiles::default();
        let profile = |url: &str, key: &str| Profile {
            url: Some(url.to_owned()),
            key: Some(HiddenText::new(key)),
            app: Some(format!("app of {url}")),
        };
        profiles.set("default", profile("https://d/", "d"));
        profiles.set("production", profile("https://p", "p"));
        profiles
    }

    fn parts(settings: &ClientSettings) -> (&str, &str, Option<&str>) {
        (&settings.server, settings.key.reveal(), settings.app.as_deref())
    }

    #[test]
    fn flags_beat_variables_and_variables_beat_the_profile_and_the_server_has_a_default() {
        let flags = ClientFlags {
            server: Some("https://a/".into()),
            key: Some(HiddenText::new("k")),
            app: Some("a".into()),
            profile: None,
        };
        let variables = [
            ("POSTHASTE_URL", "https://b"),
            ("POSTHASTE_KEY", "v"),
            ("POSTHASTE_APP", "b"),
            ("NO_COLOR", "1"),
        ];
        let settings = resolved(flags, &variables, &profiles()).unwrap();
        assert_eq!((parts(&settings), settings.may_colour), (("https://a", "k", Some("a")), false));
        let settings = resolved(ClientFlags::default(), &variables, &profiles()).unwrap();
        assert_eq!(parts(&settings), ("https://b", "v", Some("b")));
        let settings = resolved(ClientFlags::default(), &[], &profiles()).unwrap();
        assert_eq!(parts(&settings), ("https://d", "d", Some("app of https://d/")));
        let settings = resolved(ClientFlags::default(), &variables[1..2], &Profiles::default()).unwrap();
        assert_eq!((parts(&settings), settings.may_colour), ((URL_DEFAULT, "v", None), true));
    }

    #[test]
    fn a_profile_is_chosen_by_flag_or_variable_and_must_be_there() {
        let named = |name: &str| ClientFlags { profile: Some(name.into()), ..ClientFlags::default() };
        let by_variable = [("POSTHASTE_PROFILE", "production")];
        let settings = resolved(ClientFlags::default(), &by_variable, &profiles()).unwrap();
        assert_eq!(parts(&settings).0, "https://p");
        let settings = resolved(named("default"), &by_variable, &profiles()).unwrap();
        assert_eq!(parts(&settings).0, "https://d");
        let refused = resolved(named("prodction"), &[], &profiles()).unwrap_err();
        assert!(refused.contains("did you mean `production`?"), "{refused}");
    }

    #[test]
    fn the_key_of_a_profile_is_shown_to_its_own_server_alone() {
        let to = |server: &str| ClientFlags { server: Some(server.into()), ..ClientFlags::default() };
        let refused = resolved(to("https://elsewhere"), &[], &profiles()).unwrap_err();
        assert!(refused.contains("is for https://d/ and is not shown to https://elsewhere"), "{refused}");
        let variables = [("POSTHASTE_URL", "https://elsewhere")];
        assert!(resolved(ClientFlags::default(), &variables, &profiles()).is_err());
        assert_eq!(parts(&resolved(to("https://d"), &[], &profiles()).unwrap()).1, "d");
    }

    #[test]
    fn a_missing_or_unsendable_key_is_refused_and_never_repeated() {
        let none = Profiles::default();
        let refused = resolved(ClientFlags::default(), &[], &none).unwrap_err();
        assert!(refused.contains("--key") && refused.contains("POSTHASTE_KEY"), "{refused}");
        let bad = [("POSTHASTE_KEY", "hunter2\r\nx: y")];
        let refused = resolved(ClientFlags::default(), &bad, &none).unwrap_err();
        assert!(refused.contains("without spaces") && !refused.contains("hunter2"), "{refused}");
    }
}
