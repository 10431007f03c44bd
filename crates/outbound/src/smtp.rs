//! SMTP client for the operator's own server: one connection, one mail at a time; the result says whether to retry.
//!
//! Only a permanent answer about one recipient or one mail is a refusal. All other failures, a wrong password included, are
//! an outage: the same mail is tried again later, under the same `Message-ID`.

mod message;
mod wire;

use super::{
    Resolver, TlsError,
    tls::{mail_connector, roots},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use lettre::transport::smtp::{
    Error,
    authentication::{Credentials, Mechanism},
    client::AsyncSmtpConnection,
    commands::{Data, Mail, Rcpt, Rset},
    extension::ClientId,
};
use model::{
    email_address::Mailbox,
    notice::{Email, one_line},
    target_url::Host,
};
use std::{fmt, future::Future, net::IpAddr, pin::Pin, sync::Arc, time::Duration};
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};
use tokio_rustls::TlsConnector;
use wire::MailStream;

/// A connection that was idle for longer is not used again: servers hang up on silent clients.
const IDLE_MAX: Duration = Duration::from_secs(20);
const ERROR_TEXT_CHARS_MAX: usize = 300;

/// Sends mails. The engine uses only this trait, so that a test can replace the mail service.
pub trait Mailer: Send + Sync {
    /// Sends one mail and returns the result. Has no other error, and ends within the configured timeout.
    fn send(&self, email: Email) -> SendMailFuture<'_>;

    /// Closes the open connection, if any. Called when no more mail is due for now.
    fn close_idle(&self) -> CloseFuture<'_>;
}

pub type SendMailFuture<'a> = Pin<Box<dyn Future<Output = SendMailResult> + Send + 'a>>;
pub type CloseFuture<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendMailResult {
    Sent,
    /// The server will never accept this mail; holds the server's text.
    Refused(String),
    /// The server cannot be reached, or accepts nothing now; holds the reason.
    Down(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailSecurity {
    /// Begins in plain text and must switch to TLS before anything confidential is sent.
    StartTls,
    /// TLS from the first byte.
    Tls,
    None,
}

/// How to reach the operator's mail server.
#[derive(Clone)]
pub struct SmtpOptions {
    pub host: Host,
    pub port: u16,
    pub security: MailSecurity,
    /// User name and password.
    pub login: Option<(String, String)>,
    pub from: Mailbox,
    /// For one mail, from the look-up of the name to the server's last answer.
    pub timeout: Duration,
    /// Authorities to trust besides the public ones.
    pub extra_ca_pem: Option<Vec<u8>>,
}

/// The password is not for logs.
impl fmt::Debug for SmtpOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SmtpOptions")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("security", &self.security)
            .field("from", &self.from)
            .finish_non_exhaustive()
    }
}

/// A mail server that speaks SMTP.
pub struct SmtpMailer {
    options: SmtpOptions,
    resolver: Arc<dyn Resolver>,
    tls: TlsConnector,
    open: Mutex<Option<IdleConnection>>,
}

struct IdleConnection {
    connection: AsyncSmtpConnection,
    used_at: Instant,
}

/// The reason why a mail was not sent.
enum MailError {
    Refused(String),
    Down(String),
    /// The connection was lost before the server received any part of this mail.
    Stale(String),
}

impl SmtpMailer {
    pub fn new(options: SmtpOptions, resolver: Arc<dyn Resolver>) -> Result<Self, TlsError> {
        let tls = mail_connector(roots(options.extra_ca_pem.as_deref())?)?;
        Ok(Self { options, resolver, tls, open: Mutex::new(None) })
    }

    /// Connects and logs in, but sends no mail. Returns the reason as text if that fails.
    pub async fn check_login(&self) -> Result<(), String> {
        let tried = timeout(self.options.timeout, async {
            let mut connection = self.connect().await?;
            let _ = connection.quit().await;
            Ok(())
        });
        tried.await.unwrap_or_else(|_| Err(self.timeout_message())).map_err(|words| self.redact(&words))
    }

    async fn send_mail(&self, email: &Email) -> SendMailResult {
        let message = match message::render(email, &self.options.from) {
            Ok(message) => message,
            Err(words) => return SendMailResult::Refused(words),
        };
        let mut open = self.open.lock().await;
        let idle = open.take().filter(|open| open.used_at.elapsed() < IDLE_MAX);
        let sending = async {
            let mut ended = match idle {
                Some(idle) => self.exchange(idle.connection, &message).await,
                None => (Err(MailError::Stale(String::new())), None),
            };
            if let (Err(MailError::Stale(_)), _) = ended {
                ended = match self.connect().await {
                    Ok(fresh) => self.exchange(fresh, &message).await,
                    Err(words) => (Err(MailError::Down(words)), None),
                };
            }
            ended
        };
        let (ended, connection) = timeout(self.options.timeout, sending)
            .await
            .unwrap_or_else(|_| (Err(MailError::Down(self.timeout_message())), None));
        *open = connection.map(|connection| IdleConnection { connection, used_at: Instant::now() });
        match ended {
            Ok(()) => SendMailResult::Sent,
            Err(MailError::Refused(words)) => SendMailResult::Refused(self.redact(&words)),
            Err(MailError::Down(words) | MailError::Stale(words)) => {
                SendMailResult::Down(self.redact(&words))
            }
        }
    }

    /// Sends one mail over an open connection. Returns the connection too if it can be used again.
    async fn exchange(
        &self,
        mut connection: AsyncSmtpConnection,
        message: &message::RenderedMail,
    ) -> (Result<(), MailError>, Option<AsyncSmtpConnection>) {
        match transfer(&mut connection, message).await {
            Ok(()) => (Ok(()), Some(connection)),
            Err(refused @ MailError::Refused(_)) => {
                let is_usable = connection.command(Rset).await.is_ok();
                (Err(refused), is_usable.then_some(connection))
            }
            Err(trouble) => (Err(trouble), None),
        }
    }

    async fn connect(&self) -> Result<AsyncSmtpConnection, String> {
        let Self { options, tls, .. } = self;
        let stream = wire::connect(&*self.resolver, &options.host, options.port).await?;
        let local = stream.local_addr().map_err(|error| error.to_string())?;
        let wire = match options.security {
            MailSecurity::None => MailStream::plain(stream),
            MailSecurity::Tls => MailStream::secured(stream, tls, &options.host, Vec::new()).await?,
            MailSecurity::StartTls => MailStream::start_tls(stream, tls, &options.host).await?,
        };
        let me = match local.ip() {
            IpAddr::V4(ip) => ClientId::Ipv4(ip),
            IpAddr::V6(ip) => ClientId::Ipv6(ip),
        };
        let greeted = AsyncSmtpConnection::connect_with_transport(Box::new(wire), &me).await;
        let mut connection = greeted.map_err(|error| describe("the greeting", &error))?;
        if let Some((user, password)) = &options.login {
            let login = Credentials::new(user.clone(), password.clone());
            let answered = connection.auth(&[Mechanism::Plain, Mechanism::Login], &login).await;
            answered.map_err(|error| describe("the login", &error))?;
        }
        Ok(connection)
    }

    fn timeout_message(&self) -> String {
        format!("the mail server did not finish within {:?}", self.options.timeout)
    }

    /// Removes the credentials from a server's text, because some servers repeat them.
    fn redact(&self, words: &str) -> String {
        let mut words = words.to_owned();
        if let Some((user, password)) = &self.options.login {
            let both = format!("\0{user}\0{password}");
            for said in [password.clone(), BASE64_STANDARD.encode(password), BASE64_STANDARD.encode(both)] {
                if !said.is_empty() {
                    words = words.replace(&said, "…");
                }
            }
        }
        one_line(&words, ERROR_TEXT_CHARS_MAX)
    }
}

impl Mailer for SmtpMailer {
    fn send(&self, email: Email) -> SendMailFuture<'_> {
        Box::pin(async move { self.send_mail(&email).await })
    }

    fn close_idle(&self) -> CloseFuture<'_> {
        Box::pin(async {
            let open = self.open.lock().await.take();
            if let Some(mut open) = open {
                let _ = timeout(self.options.timeout, open.connection.quit()).await;
            }
        })
    }
}

async fn transfer(
    connection: &mut AsyncSmtpConnection,
    message: &message::RenderedMail,
) -> Result<(), MailError> {
    let mail = connection.command(Mail::new(Some(message.from.clone()), vec![])).await;
    mail.map_err(|error| match error.status() {
        // A sender that is not accepted at all is no failure of this mail.
        Some(_) => MailError::Down(describe("the sender", &error)),
        None => MailError::Stale(describe("the sender", &error)),
    })?;
    let ended = |step: &'static str| {
        move |error: Error| {
            let words = describe(step, &error);
            if error.is_permanent() && !is_sender_refused(&error, &words) {
                MailError::Refused(words)
            } else {
                MailError::Down(words)
            }
        }
    };
    connection.command(Rcpt::new(message.to.clone(), vec![])).await.map_err(ended("the recipient"))?;
    connection.command(Data).await.map_err(ended("the mail"))?;
    connection.message(&message.bytes).await.map_err(ended("the mail"))?;
    Ok(())
}

/// Whether a refusal concerns the sender, not this mail: no login, a relay that is denied, a policy (RFC 3463, 5.7).
fn is_sender_refused(error: &Error, words: &str) -> bool {
    let is_login = error.status().is_some_and(|code| matches!(u16::from(code), 530 | 534 | 535 | 538));
    is_login || words.contains(" 5.7.") || words.to_lowercase().contains("relay")
}

/// Describes the server's answer to a step, or why there is none.
fn describe(step: &str, error: &Error) -> String {
    let source = std::error::Error::source(error).map(ToString::to_string);
    match (error.status(), source) {
        (Some(code), Some(words)) => format!("the mail server answered {code} to {step}: {words}"),
        (Some(code), None) => format!("the mail server answered {code} to {step}"),
        (None, Some(words)) => format!("no answer to {step}: {words}"),
        (None, None) => format!("no answer to {step}: {error}"),
    }
}
