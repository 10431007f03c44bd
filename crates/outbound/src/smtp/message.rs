//! Renders an e-mail as bytes: headers encoded, text in a form that every server takes.

use lettre::{
    Address, Message,
    message::{
        Mailbox as MailAddress,
        header::{ContentType, HeaderName, HeaderValue},
    },
};
use model::{email_address::Mailbox, notice::Email};
use std::time::{Duration, SystemTime};

/// A rendered mail with its sender and recipient.
pub(super) struct RenderedMail {
    pub(super) from: Address,
    pub(super) to: Address,
    pub(super) bytes: Vec<u8>,
}

/// Renders an e-mail. Fails with a text if an address is invalid.
pub(super) fn render(email: &Email, from: &Mailbox) -> Result<RenderedMail, String> {
    let address = |text: &str| text.parse::<Address>().map_err(|_| format!("{text} is no e-mail address"));
    let (sender, to) = (address(&from.address)?, address(&email.to)?);
    let since_epoch = Duration::from_millis(email.at.as_millis().unsigned_abs());
    let by_ourselves = HeaderName::new_from_ascii_str("Auto-Submitted");
    let message = Message::builder()
        .from(MailAddress::new(from.name.clone(), sender.clone()))
        .to(MailAddress::new(None, to.clone()))
        .subject(email.subject.as_str())
        .message_id(Some(format!("<{}@{}>", email.id, from.host())))
        .date(SystemTime::UNIX_EPOCH + since_epoch)
        .raw_header(HeaderValue::new(by_ourselves, "auto-generated".to_owned()))
        .header(ContentType::TEXT_PLAIN)
        .body(email.body.clone())
        .map_err(|error| format!("the mail cannot be written: {error}"))?;
    Ok(RenderedMail { from: sender, to, bytes: message.formatted() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{email_address::is_email_address, time::Timestamp};
    use proptest::prelude::*;

    fn email(subject: &str, body: &str, to: &str) -> Email {
        let (id, at) = ("ntc_1.5.app_1".to_owned(), Timestamp::from_millis(1_794_700_800_000));
        Email { id, to: to.to_owned(), subject: subject.to_owned(), body: body.to_owned(), at }
    }

    fn sender() -> Mailbox {
        Mailbox::parse("Posthaste, notices <posthaste@example.com>").unwrap()
    }

    /// The names of the headers, unfolded, in lower case.
    fn headers(bytes: &[u8]) -> Vec<String> {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let (head, _) = text.split_once("\r\n\r\n").unwrap();
        let lines = head.split("\r\n").filter(|line| !line.starts_with([' ', '\t']));
        lines.map(|line| line.split(':').next().unwrap().to_lowercase()).collect()
    }

    #[test]
    fn a_mail_says_who_what_when_and_that_no_person_sent_it() {
        let written = render(&email("It is off", "Hello\nthere", "ops@shop.example"), &sender()).unwrap();
        let text = String::from_utf8(written.bytes).unwrap();
        for line in [
            "To: ops@shop.example",
            "Subject: It is off",
            "Message-ID: <ntc_1.5.app_1@example.com>",
            "Auto-Submitted: auto-generated",
            "Date: Sun, 15 Nov 2026 00:00:00 +0000",
            "Content-Type: text/plain; charset=utf-8",
        ] {
            assert!(text.lines().any(|known| known == line), "{line} in\n{text}");
        }
        assert!(text.contains("<posthaste@example.com>") && text.ends_with("Hello\r\nthere"), "{text}");
    }

    proptest! {
        #[test]
        fn a_subject_or_text_never_adds_a_header(subject in any::<String>(), body in any::<String>()) {
            let plain = headers(&render(&email("s", "b", "a@b.c"), &sender()).unwrap().bytes);
            // `EmailRenderer` passes its subjects through this.
            let subject = model::notice::one_line(&subject, 200);
            let written = render(&email(&subject, &body, "a@b.c"), &sender()).unwrap();
            prop_assert!(written.bytes.is_ascii());
            let mut found = headers(&written.bytes);
            found.retain(|name| name != "content-transfer-encoding");
            let mut known = plain.clone();
            known.retain(|name| name != "content-transfer-encoding");
            prop_assert_eq!(found, known);
        }

        #[test]
        fn every_accepted_address_can_be_written_to(
            name in "[a-z0-9!#$%&'*+/=?^_`{|}~.-]{1,12}", host in "[a-z0-9.-]{1,12}",
        ) {
            let address = format!("{name}@{host}");
            if is_email_address(&address) {
                prop_assert!(render(&email("s", "b", &address), &sender()).is_ok(), "{}", address);
            }
        }
    }
}
