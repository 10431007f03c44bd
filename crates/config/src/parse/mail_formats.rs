//! Formats of the settings for notices: a mail server, addresses, and the URL of the dashboard.

use super::{ValueFormat, count, optional};
use crate::secret::HiddenText;
use model::{
    email_address::{EMAIL_ADDRESS_FORM, MAILBOX_FORM, Mailbox, is_email_address},
    id::{EXTERNAL_ID_FORM, is_external_id},
    target_url::Host,
    time::parse_duration,
};
use std::time::Duration;

/// How a connection to the mail server is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmtpSecurity {
    StartTls,
    Tls,
    None,
}

/// Where the mail server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmtpServer {
    pub host: Host,
    pub port: u16,
}

pub(crate) const SMTP_SERVER: ValueFormat<Option<SmtpServer>> =
    ValueFormat::new("a host and a port, for example mail.example.com:587", |text| {
        optional(text, smtp_server)
    });

pub(crate) const SMTP_SECURITY: ValueFormat<SmtpSecurity> =
    ValueFormat::new("starttls, tls or none", |text| match text {
        "starttls" => Some(SmtpSecurity::StartTls),
        "tls" => Some(SmtpSecurity::Tls),
        "none" => Some(SmtpSecurity::None),
        _ => None,
    });

pub(crate) const SMTP_USER: ValueFormat<Option<String>> = ValueFormat::new("1 to 256 characters", |text| {
    optional(text, |text| is_login(text).then(|| text.to_owned()))
});

pub(crate) const SMTP_PASSWORD: ValueFormat<Option<HiddenText>> =
    ValueFormat::new("1 to 256 characters", |text| {
        optional(text, |text| is_login(text).then(|| HiddenText::new(text)))
    })
    .hidden();

pub(crate) const SMTP_TIMEOUT: ValueFormat<Duration> =
    ValueFormat::new("a whole number followed by ms, s or m, from 100ms to 5m, for example 30s", |text| {
        let range = Duration::from_millis(100)..=Duration::from_mins(5);
        parse_duration(text).filter(|timeout| range.contains(timeout))
    });

pub(crate) const MAIL_FROM: ValueFormat<Option<Mailbox>> =
    ValueFormat::new(MAILBOX_FORM, |text| optional(text, Mailbox::parse));

pub(crate) const EMAIL_ADDRESS: ValueFormat<Option<String>> = ValueFormat::new(EMAIL_ADDRESS_FORM, |text| {
    optional(text, |text| is_email_address(text).then(|| text.to_owned()))
});

pub(crate) const MAILS_PER_MINUTE: ValueFormat<u32> =
    ValueFormat::new("a whole number from 1 to 6000", |text| {
        count(text, 1..=6_000).and_then(|count| u32::try_from(count).ok())
    });

pub(crate) const PUBLIC_URL: ValueFormat<Option<String>> = ValueFormat::new(
    "an http or https URL without a path or query, for example https://hooks.example.com",
    |text| optional(text, public_url),
);

pub(crate) const APP_ID: ValueFormat<Option<String>> = ValueFormat::new(EXTERNAL_ID_FORM, |text| {
    optional(text, |text| is_external_id(text).then(|| text.to_owned()))
});

fn smtp_server(text: &str) -> Option<SmtpServer> {
    let (host, port) = text.rsplit_once(':')?;
    let port = count(port, 1..=65_535).and_then(|port| u16::try_from(port).ok())?;
    let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    if let Ok(ip) = address.parse() {
        return Some(SmtpServer { host: Host::Address(ip), port });
    }
    let is_label = |label: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        !label.is_empty() && label.len() <= 63 && label.bytes().all(plain)
    };
    let fits = host.len() <= 253 && host.split('.').all(is_label);
    fits.then(|| SmtpServer { host: Host::Name(host.to_lowercase()), port })
}

fn is_login(text: &str) -> bool {
    text.chars().count() <= 256 && !text.contains(char::is_control)
}

fn public_url(text: &str) -> Option<String> {
    let url = url::Url::parse(text).ok()?;
    let plain = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.path() == "/"
        && url.query().is_none();
    let nobody = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    (plain && nobody).then(|| url.as_str().trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mail_server_is_a_host_and_a_port() {
        let name = |host: &str, port| Some(Some(SmtpServer { host: Host::Name(host.into()), port }));
        assert_eq!((SMTP_SERVER.read)("Mail.example.com:587"), name("mail.example.com", 587));
        assert_eq!((SMTP_SERVER.read)("relay:25"), name("relay", 25));
        let ip = |ip: &str| Some(Some(SmtpServer { host: Host::Address(ip.parse().unwrap()), port: 25 }));
        assert_eq!((SMTP_SERVER.read)("127.0.0.1:25"), ip("127.0.0.1"));
        assert_eq!((SMTP_SERVER.read)("[::1]:25"), ip("::1"));
        for bad in ["mail", "mail:", ":25", "mail:0", "mail:65536", "a b:25", "smtp://mail:25", "mail..x:25"]
        {
            assert_eq!((SMTP_SERVER.read)(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_public_url_has_neither_query_nor_password_and_loses_its_last_slash() {
        let read = |text| (PUBLIC_URL.read)(text);
        assert_eq!(read("https://hooks.example.com/"), Some(Some("https://hooks.example.com".into())));
        assert_eq!(read("http://10.0.0.1:8080/"), Some(Some("http://10.0.0.1:8080".into())));
        for bad in ["hooks.example.com", "ftp://a.b", "https://a.b/?x", "https://u:p@a.b", "https://a.b/#x"] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
    }
}
