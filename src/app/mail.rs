//! Builds the mail client from the settings. Checks them as a whole at the start, so that a missing one is an error and not
//! silently no mail.

use super::extra_ca;
use crate::{
    config::{Settings, SmtpSecurity},
    domain::target_url::Host,
    engine::MailSettings,
    outbound::{MailSecurity, SmtpMailer, SmtpOptions, SystemResolver},
};
use anyhow::{Context, bail};
use std::sync::Arc;

/// Returns how notices are mailed; None if no mail server is set.
pub(super) fn mail_settings(settings: &Settings) -> anyhow::Result<Option<MailSettings>> {
    let Some(server) = mail_server(settings)? else { return Ok(None) };
    Ok(Some(MailSettings {
        mailer: Arc::new(server),
        operator_email: settings.operator_email.clone(),
        public_url: settings.public_url.clone(),
        per_minute_max: settings.mails_per_minute,
    }))
}

/// Builds the mail server of the settings, without connecting to it.
pub fn mail_server(settings: &Settings) -> anyhow::Result<Option<SmtpMailer>> {
    let Some(server) = &settings.smtp_server else {
        if settings.mail_from.is_some() || settings.smtp_user.is_some() || settings.smtp_password.is_some() {
            bail!("smtp_server: is not set, but what it needs is; set it too, or neither");
        }
        return Ok(None);
    };
    let Some(from) = &settings.mail_from else {
        bail!("mail_from: must be set where smtp_server is: whom do the mails come from?");
    };
    let login = match (&settings.smtp_user, &settings.smtp_password) {
        (None, None) => None,
        (Some(user), Some(password)) => Some((user.clone(), password.reveal().to_owned())),
        (Some(_), None) => bail!("smtp_password: must be set where smtp_user is"),
        (None, Some(_)) => bail!("smtp_user: must be set where smtp_password is"),
    };
    let security = match settings.smtp_security {
        SmtpSecurity::StartTls => MailSecurity::StartTls,
        SmtpSecurity::Tls => MailSecurity::Tls,
        SmtpSecurity::None if login.is_some() && !is_here(&server.host) => bail!(
            "smtp_security: with none the password would cross the network in plain text; give starttls or tls, or no \
             smtp_user for a relay that asks for none"
        ),
        SmtpSecurity::None => MailSecurity::None,
    };
    let options = SmtpOptions {
        host: server.host.clone(),
        port: server.port,
        security,
        login,
        from: from.clone(),
        timeout: settings.smtp_timeout,
        extra_ca_pem: extra_ca(settings)?,
    };
    SmtpMailer::new(options, Arc::new(SystemResolver::default())).map(Some).context("extra_ca")
}

fn is_here(host: &Host) -> bool {
    match host {
        Host::Address(ip) => ip.is_loopback(),
        Host::Name(name) => name == "localhost",
    }
}
