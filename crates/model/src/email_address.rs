//! E-mail addresses: plain ASCII ones, as every mail server takes them. Whether a mailbox exists shows only on sending.

/// The form of an address, for error messages.
pub const EMAIL_ADDRESS_FORM: &str = "an e-mail address in ASCII, for example ops@example.com";

/// The form of a sender, for error messages.
pub const MAILBOX_FORM: &str =
    "an e-mail address in ASCII, or a name and one, for example Posthaste <posthaste@example.com>";

/// Whether the text is a name and a host with a dot in it. Quotes, comments and addresses in brackets are not allowed.
pub fn is_email_address(text: &str) -> bool {
    let Some((name, host)) = text.rsplit_once('@') else { return false };
    let is_atom = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&b);
    let is_label = |label: &str| {
        let inner = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        (1..=63).contains(&label.len())
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 254
        && name.len() <= 64
        && name.split('.').all(|part| !part.is_empty() && part.bytes().all(is_atom))
        && host.contains('.')
        && host.split('.').all(is_label)
}

/// The sender of mails: an address and possibly a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mailbox {
    pub name: Option<String>,
    pub address: String,
}

impl Mailbox {
    pub fn parse(text: &str) -> Option<Self> {
        let (name, address) = match text.strip_suffix('>') {
            None => (None, text),
            Some(rest) => {
                let (name, address) = rest.split_once('<')?;
                (Some(name.trim()), address)
            }
        };
        let is_name = |name: &str| {
            (1..=100).contains(&name.len()) && !name.contains(|c: char| c.is_control() || c == '"')
        };
        let fits = is_email_address(address) && name.is_none_or(is_name);
        fits.then(|| Self { name: name.map(str::to_owned), address: address.to_owned() })
    }

    pub fn host(&self) -> &str {
        self.address.rsplit_once('@').map_or("", |(_, host)| host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_cannot_inject_headers() {
        for good in ["ops@example.com", "a+b@c.d", "first.last@mail.shop-17.example", "o'neil@a.b"] {
            assert!(is_email_address(good), "{good}");
        }
        let long = format!("{}@example.com", "a".repeat(65));
        for bad in [
            "",
            "ops",
            "@example.com",
            "ops@host",
            "a b@c.d",
            "a@b.c\r\nBcc: x@y.z",
            "a@b@c.d",
            ".a@b.c",
            "a..b@c.d",
            "a@-b.c",
            "a@b..c",
            "a@b.c.",
            "ü@b.c",
            "a@[127.0.0.1]",
            "\"a b\"@c.d",
            "a@b.c>",
            "<a@b.c",
            &long,
        ] {
            assert!(!is_email_address(bad), "{bad:?}");
        }
    }

    #[test]
    fn a_sender_may_have_a_name() {
        let sender = |name: Option<&str>| Mailbox { name: name.map(str::to_owned), address: "p@x.y".into() };
        assert_eq!(Mailbox::parse("p@x.y"), Some(sender(None)));
        assert_eq!(Mailbox::parse("Post, haste <p@x.y>"), Some(sender(Some("Post, haste"))));
        assert_eq!(sender(None).host(), "x.y");
        for bad in ["", "<p@x.y>", "P <p@x.y", "P p@x.y>", "P <p>", "a\r\nb <p@x.y>", "\"P\" <p@x.y>"] {
            assert_eq!(Mailbox::parse(bad), None, "{bad:?}");
        }
    }
}
