//! The profile file: servers, keys and apps under names, so that they need not be typed and do not show in a list of
//! processes.
//!
//! A file with keys that other users may read is refused, because they could use the keys.

use super::{
    file::{self, FileEntry, FileValue},
    secret::HiddenText,
    sources::{ConfigError, variable},
};
use model::field_error::nearest;
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process,
};

/// The variable that names the file.
pub(super) const PROFILE_FILE_VARIABLE: &str = "POSTHASTE_PROFILE_FILE";
const PROFILE_FIELDS: [&str; 3] = ["url", "key", "app"];
const FILE_HEADER: &str =
    "# Made by `posthaste profile set`, which keeps no comments. It holds keys: show it to nobody.\n";

/// A server with the user's key and app for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    pub url: Option<String>,
    pub key: Option<HiddenText>,
    /// The default app.
    pub app: Option<String>,
}

/// All profiles, and the path of their file.
#[derive(Debug, Default)]
pub struct Profiles {
    /// None where there is no home to keep them in.
    path: Option<PathBuf>,
    by_name: BTreeMap<String, Profile>,
}

impl Profiles {
    /// Reads this user's file. A missing file means no profiles.
    pub fn read() -> Result<Self, ConfigError> {
        file_path(variable).map_or_else(|| Ok(Self::default()), Self::read_at)
    }

    pub(super) fn read_at(path: PathBuf) -> Result<Self, ConfigError> {
        let name = path.display().to_string();
        let unreadable = |cause| ConfigError::Unreadable { path: name.clone(), cause };
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(unreadable(error)),
        };
        let by_name = parse(&name, &text).map_err(ConfigError::Refused)?;
        let holds_keys = by_name.values().any(|profile| profile.key.is_some());
        if holds_keys && fs::metadata(&path).map_err(unreadable)?.mode() & 0o077 != 0 {
            let message = format!("{name} holds keys and others may read it; run: chmod 600 {name}");
            return Err(ConfigError::Refused(vec![message]));
        }
        Ok(Self { path: Some(path), by_name })
    }

    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Profile)> {
        self.by_name.iter().map(|(name, profile)| (name.as_str(), profile))
    }

    pub fn find(&self, name: &str) -> Option<&Profile> {
        self.by_name.get(name)
    }

    /// Returns the profile of this name. The error for a missing one says what to do.
    pub fn get(&self, name: &str) -> Result<&Profile, ConfigError> {
        self.find(name).ok_or_else(|| {
            let known: Vec<&str> = self.by_name.keys().map(String::as_str).collect();
            let hint = match (nearest(name, &known), known.is_empty()) {
                (Some(near), _) => format!("did you mean `{near}`?"),
                (None, false) => format!("known: {}", known.join(", ")),
                (None, true) => format!("make it with: posthaste profile set {name}"),
            };
            ConfigError::Refused(vec![format!("there is no profile `{name}`; {hint}")])
        })
    }

    pub fn set(&mut self, name: &str, profile: Profile) {
        self.by_name.insert(name.to_owned(), profile);
    }

    pub fn remove(&mut self, name: &str) -> Result<(), ConfigError> {
        self.get(name)?;
        self.by_name.remove(name);
        Ok(())
    }

    /// Writes the file atomically, readable by its owner alone.
    pub fn save(&self) -> Result<(), ConfigError> {
        let Some(path) = &self.path else {
            let message = format!(
                "there is no home folder to keep profiles in; set the variable {PROFILE_FILE_VARIABLE}"
            );
            return Err(ConfigError::Refused(vec![message]));
        };
        write_atomically(path, &self.text())
            .map_err(|cause| ConfigError::Unwritable { path: path.display().to_string(), cause })
    }

    fn text(&self) -> String {
        let mut text = FILE_HEADER.to_owned();
        for (name, profile) in &self.by_name {
            let _ = writeln!(text, "\n[{}]", quoted(name));
            let values =
                [&profile.url, &profile.key.as_ref().map(|key| key.reveal().to_owned()), &profile.app];
            for (field, value) in PROFILE_FIELDS.iter().zip(values) {
                if let Some(value) = value {
                    let _ = writeln!(text, "{field} = {}", quoted(value));
                }
            }
        }
        text
    }
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Returns the path where the file is, or would be.
fn file_path(variable: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let folder = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    variable(PROFILE_FILE_VARIABLE).map(PathBuf::from).or_else(|| {
        let config = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")))?;
        Some(config.join("posthaste/profile.toml"))
    })
}

/// Parses the file: returns every profile, or every problem. No message repeats a value, which may be a key.
fn parse(file_name: &str, text: &str) -> Result<BTreeMap<String, Profile>, Vec<String>> {
    let entries = file::entries(text)
        .map_err(|broken| vec![format!("{file_name}:{}: not valid TOML: {}", broken.line, broken.reason)])?;
    let (mut profiles, mut problems) = (BTreeMap::new(), Vec::new());
    for FileEntry { name, line, value } in entries {
        let FileValue::Table(fields) = value else {
            problems.push(format!("{name} ({file_name}:{line}): must be in a profile, such as [default]"));
            continue;
        };
        let mut profile = Profile::default();
        for FileEntry { name: field, line, value } in fields {
            let location = format!("{field} ({file_name}:{line})");
            let text = if let FileValue::Text(text) = value { Some(text) } else { None };
            match (field.as_str(), text) {
                ("url", Some(text)) => profile.url = Some(text),
                ("key", Some(text)) => profile.key = Some(HiddenText::new(text)),
                ("app", Some(text)) => profile.app = Some(text),
                (known, None) if PROFILE_FIELDS.contains(&known) => {
                    problems.push(format!("{location}: must be text"));
                }
                (other, _) => problems.push(match nearest(other, &PROFILE_FIELDS) {
                    Some(near) => format!("{location}: there is no such field; did you mean `{near}`?"),
                    None => {
                        format!("{location}: there is no such field; known: {}", PROFILE_FIELDS.join(", "))
                    }
                }),
            }
        }
        profiles.insert(name, profile);
    }
    if problems.is_empty() { Ok(profiles) } else { Err(problems) }
}

/// Writes a new file beside the old one and renames it, so that no reader sees half of it. A symbolic link stays one.
fn write_atomically(path: &Path, text: &str) -> io::Result<()> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let mut beside = path.clone().into_os_string();
    beside.push(format!(".{}.new", process::id()));
    let written = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, &path)
    };
    written().inspect_err(|_| {
        // The temporary file is not needed.
        let _ = fs::remove_file(&beside);
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_file_is_the_one_named_or_lies_in_the_config_folder() {
        let at = |pairs: &[(&str, &str)]| {
            let find = |name: &str| pairs.iter().find(|(known, _)| *known == name);
            file_path(|name| find(name).map(|(_, value)| (*value).to_owned()))
        };
        let home = ("HOME", "/home/ada");
        assert_eq!(at(&[home]), Some("/home/ada/.config/posthaste/profile.toml".into()));
        assert_eq!(at(&[home, ("XDG_CONFIG_HOME", "/c")]), Some("/c/posthaste/profile.toml".into()));
        let relative = ("XDG_CONFIG_HOME", "c");
        assert_eq!(at(&[home, relative]), Some("/home/ada/.config/posthaste/profile.toml".into()));
        assert_eq!(at(&[home, (PROFILE_FILE_VARIABLE, "p.toml")]), Some("p.toml".into()));
        assert_eq!(at(&[]), None);
    }

    #[test]
    fn saved_profiles_are_read_back_and_only_the_owner_may_read_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made/profile.toml");
        let mut profiles = Profiles::read_at(path.clone()).unwrap();
        let shop = Profile {
            url: Some("https://p.example".into()),
            key: Some(HiddenText::new("phk_\"quoted\\")),
            app: Some("shop".into()),
        };
        profiles.set("my shop", shop.clone());
        profiles.set("default", Profile::default());
        profiles.save().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        let mut again = Profiles::read_at(path.clone()).unwrap();
        assert_eq!(again.get("my shop").unwrap(), &shop);
        assert_eq!(again.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["default", "my shop"]);
        again.remove("my shop").unwrap();
        again.save().unwrap();
        assert!(Profiles::read_at(path.clone()).unwrap().find("my shop").is_none());
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_file_with_every_field_is_the_same_text_in_every_version() {
        let fields = r#"
["default"]
url = "https://p.example"
key = "phk_1"
app = "shop"

["my shop"]
"#;
        let text = format!("{FILE_HEADER}{fields}");
        let by_name = parse("profile.toml", &text).unwrap();
        assert_eq!(by_name["default"].key, Some(HiddenText::new("phk_1")));
        assert_eq!(Profiles { path: None, by_name }.text(), text);
    }

    #[test]
    fn a_file_with_keys_that_others_may_read_is_refused_with_the_command_that_helps() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.toml");
        let with_mode = |text: &str, mode: u32| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            Profiles::read_at(path.clone()).map(|_| ()).map_err(|error| error.to_string())
        };
        for mode in [0o604, 0o640, 0o660] {
            let refused = with_mode("[default]\nkey = \"hunter2\"", mode).unwrap_err();
            assert!(refused.ends_with(&format!("chmod 600 {}", path.display())), "{refused}");
            assert!(!refused.contains("hunter2"));
        }
        assert_eq!(with_mode("[default]\nkey = \"hunter2\"", 0o600), Ok(()));
        assert_eq!(with_mode("[default]\nurl = \"http://a\"", 0o644), Ok(()), "there is nothing to hide");
    }

    #[test]
    fn mistakes_are_named_with_their_line_and_never_repeat_a_key() {
        let message = |text: &str| parse("p.toml", text).unwrap_err().join("\n");
        let said = message("url = \"x\"\n[a]\nkye = \"hunter2\"\nkey = 5\nzzz = 1");
        assert!(said.contains("url (p.toml:1): must be in a profile"), "{said}");
        assert!(said.contains("kye (p.toml:3): there is no such field; did you mean `key`?"), "{said}");
        assert!(said.contains("zzz (p.toml:5): there is no such field; known: url, key, app"), "{said}");
        assert!(!said.contains("hunter2") && !message("[a]\nkey = hunter2").contains("hunter2"));
        let mut profiles = Profiles::default();
        let missing = |profiles: &Profiles, name| profiles.get(name).unwrap_err().to_string();
        assert!(missing(&profiles, "prod").ends_with("make it with: posthaste profile set prod"));
        profiles.set("production", Profile::default());
        assert!(missing(&profiles, "producton").ends_with("did you mean `production`?"));
        assert!(missing(&profiles, "zzz").ends_with("known: production"));
    }
}
