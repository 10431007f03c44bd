//! Checks of the mail server: whether it can be reached and accepts the login. Sends no mail, unless a test mail is
//! asked for.

use super::CheckLine;
use crate::{
    app,
    config::{Settings, SmtpSecurity},
    domain::{
        email_address::{EMAIL_ADDRESS_FORM, is_email_address},
        notice::Email,
    },
    outbound::{Mailer, SendMailResult, SmtpMailer},
    runtime::{Clock, SystemClock},
};

const MAIL_CHECK: &str = "mail";

pub(super) async fn check_mail(settings: &Settings, test_to: Option<String>) -> Vec<CheckLine> {
    let server = match app::mail_server(settings) {
        Ok(Some(server)) => server,
        Ok(None) if test_to.is_some() => {
            let advice = "Set smtp_server and mail_from; docs/operating.md says more.";
            return vec![CheckLine::failed(MAIL_CHECK, "no mail server is set", advice)];
        }
        Ok(None) => return Vec::new(),
        Err(error) => {
            let advice = "The server would not start; docs/operating.md says what belongs together.";
            return vec![CheckLine::failed(MAIL_CHECK, format!("{error:#}"), advice)];
        }
    };
    let mut lines = Vec::new();
    if settings.smtp_security == SmtpSecurity::None {
        let said = "smtp_security is none: mails cross the network in plain text";
        lines.push(CheckLine::warning(
            MAIL_CHECK,
            said,
            "Use starttls or tls, unless the relay is in your own network.",
        ));
    }
    if settings.operator_email.is_none() {
        let said = "operator_email is not set: apps without a contact_email get no mails";
        lines.push(CheckLine::warning(
            MAIL_CHECK,
            said,
            "Set operator_email to an address that somebody reads.",
        ));
    }
    let advice = "Look at smtp_server, smtp_security and the login; notices wait until it works.";
    lines.push(match server.check_login().await {
        Ok(()) if settings.smtp_user.is_some() => {
            CheckLine::ok(MAIL_CHECK, "the mail server answers and lets us in")
        }
        Ok(()) => CheckLine::ok(MAIL_CHECK, "the mail server answers"),
        Err(words) => CheckLine::failed(MAIL_CHECK, words, advice),
    });
    if let Some(to) = test_to {
        lines.push(send_test_mail(&server, to).await);
    }
    lines
}

async fn send_test_mail(server: &SmtpMailer, to: String) -> CheckLine {
    if !is_email_address(&to) {
        return CheckLine::failed(
            MAIL_CHECK,
            "the address of --mail-to is none",
            format!("Give {EMAIL_ADDRESS_FORM}."),
        );
    }
    let at = SystemClock.now();
    let email = Email {
        id: format!("test.{}", at.as_millis()),
        to,
        subject: "[Posthaste] A test of the mail settings".to_owned(),
        body: "This mail was asked for with `posthaste check --mail-to`. There is nothing to do.\n"
            .to_owned(),
        at,
    };
    let mailed = server.send(email).await;
    server.close_idle().await;
    match mailed {
        SendMailResult::Sent => CheckLine::ok(MAIL_CHECK, "the mail server took a test mail"),
        SendMailResult::Refused(words) | SendMailResult::Down(words) => CheckLine::failed(
            MAIL_CHECK,
            words,
            "Look at mail_from and at the address; the server's words say which.",
        ),
    }
}
