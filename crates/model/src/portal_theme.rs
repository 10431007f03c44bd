//! The theme of the customer portal behind one link. It is checked before it is stored, because people see it and the logo's
//! URL is put in a header.

use super::{
    address_policy::AddressPolicy, field_error::FieldError, stored::nullable, target_url::TargetUrl,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

const NAME_BYTES_MAX: usize = 100;

/// How long an expired link is kept and listed.
pub const EXPIRED_LINK_RETENTION: Duration = Duration::from_hours(24);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortalTheme {
    /// The portal's name.
    #[serde(rename = "name", deserialize_with = "nullable")]
    pub name: Option<String>,
    /// An image that the customer's browser fetches; the server never does.
    #[serde(rename = "logo_url", deserialize_with = "nullable")]
    pub logo_url: Option<String>,
    /// `#rrggbb`.
    #[serde(rename = "accent", deserialize_with = "nullable")]
    pub accent: Option<String>,
}

impl PortalTheme {
    /// Returns the theme in its canonical spelling, if each part may be shown.
    pub fn checked(self) -> Result<Self, FieldError> {
        if self.name.as_deref().is_some_and(|name| !is_name(name)) {
            let message = format!("must be 1 to {NAME_BYTES_MAX} bytes of text without control characters");
            return Err(FieldError::new("theme.name", message));
        }
        if self.accent.as_deref().is_some_and(|accent| !is_colour(accent)) {
            return Err(FieldError::new("theme.accent", "must be a colour like #1a73e8"));
        }
        let logo_url = self.logo_url.as_deref().map(check_logo_url).transpose()?;
        Ok(Self { logo_url, accent: self.accent.map(|accent| accent.to_ascii_lowercase()), ..self })
    }

    /// Returns the logo as a Content-Security-Policy source, the only foreign image of a page. It has no query and no characters
    /// that end a source or a policy.
    pub fn image_source(&self) -> Option<String> {
        let url = self.logo_url.as_deref()?;
        let base = url.split('?').next().unwrap_or(url);
        Some(base.replace(';', "%3B").replace(',', "%2C"))
    }
}

fn is_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.contains(char::is_control)
}

fn is_colour(text: &str) -> bool {
    text.strip_prefix('#')
        .is_some_and(|digits| digits.len() == 6 && digits.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Checks the logo's URL. Only public https URLs are allowed, so that browsers fetch nothing from their local network.
fn check_logo_url(url: &str) -> Result<String, FieldError> {
    let refused = |why: &dyn std::fmt::Display| FieldError::new("theme.logo_url", why);
    let target = TargetUrl::parse(url, &AddressPolicy::default()).map_err(|error| refused(&error))?;
    if !target.is_https() {
        return Err(refused(&"must start with https://"));
    }
    // In a policy such a URL matches everything below it.
    let base = target.as_str().split('?').next().unwrap_or_default();
    if base.ends_with('/') {
        return Err(refused(&"must lead to an image, not to a folder: it ends with /"));
    }
    Ok(target.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn theme(name: &str, logo_url: &str, accent: &str) -> PortalTheme {
        let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        PortalTheme { name: given(name), logo_url: given(logo_url), accent: given(accent) }
    }

    #[test]
    fn a_theme_is_canonical_once_it_is_checked_and_may_be_empty() {
        let checked = theme("Bakery", "HTTPS://CDN.bakery.example/logo.svg", "#1A73E8").checked().unwrap();
        assert_eq!(checked, theme("Bakery", "https://cdn.bakery.example/logo.svg", "#1a73e8"));
        assert_eq!(PortalTheme::default().checked().unwrap(), PortalTheme::default());
    }

    #[test]
    fn an_invalid_theme_is_refused_with_the_name_of_its_field() {
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        for (bad, field) in [
            (theme(&long, "", ""), "theme.name"),
            (theme("a\nb", "", ""), "theme.name"),
            (theme("", "http://cdn.example.com/logo.svg", ""), "theme.logo_url"),
            (theme("", "javascript:alert(1)", ""), "theme.logo_url"),
            (theme("", "data:image/svg+xml,<svg/>", ""), "theme.logo_url"),
            (theme("", "https://127.0.0.1/logo.svg", ""), "theme.logo_url"),
            (theme("", "https://user:pw@cdn.example.com/", ""), "theme.logo_url"),
            (theme("", "https://cdn.example.com/a b", ""), "theme.logo_url"),
            (theme("", "https://cdn.example.com", ""), "theme.logo_url"),
            (theme("", "https://cdn.example.com/logos/?a.svg", ""), "theme.logo_url"),
            (theme("", "", "red"), "theme.accent"),
            (theme("", "", "#12345"), "theme.accent"),
            (theme("", "", "#12345g"), "theme.accent"),
            (theme("", "", "#123456;color:red"), "theme.accent"),
        ] {
            assert_eq!(bad.clone().checked().unwrap_err().field, field, "{bad:?}");
        }
    }

    #[test]
    fn the_logo_url_cannot_extend_the_content_security_policy() {
        let sneaky = "https://cdn.example.com/a;script-src%20*,b'c.svg?x;y";
        let source = theme("", sneaky, "").checked().unwrap().image_source().unwrap();
        assert_eq!(source, "https://cdn.example.com/a%3Bscript-src%20*%2Cb'c.svg");
        assert!(!source.contains([';', ',', ' ', '?']));
        assert_eq!(PortalTheme::default().image_source(), None);
    }
}
