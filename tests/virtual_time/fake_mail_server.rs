//! A mail server that does as the test says, and remembers every try.

use posthaste::{
    domain::notice::Email,
    engine::MailSettings,
    outbound::{CloseFuture, Mailer, SendMailFuture, SendMailResult},
};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::time::Instant;

/// How long the server takes for one mail.
const TAKES: Duration = Duration::from_millis(200);

pub(crate) struct FakeMailServer {
    does: Mutex<SendMailResult>,
    tries: Mutex<Vec<(Instant, Email, SendMailResult)>>,
}

impl FakeMailServer {
    pub(crate) fn new(does: SendMailResult) -> Arc<Self> {
        Arc::new(Self { does: Mutex::new(does), tries: Mutex::default() })
    }

    pub(crate) fn mail_settings(self: &Arc<Self>) -> MailSettings {
        let (operator, public_url) = (Some("ops@operator.example".into()), None);
        MailSettings { mailer: self.clone(), operator_email: operator, public_url, per_minute_max: 60 }
    }

    pub(crate) fn now_does(&self, does: SendMailResult) {
        *self.does.lock().unwrap() = does;
    }

    /// When each try began.
    pub(crate) fn tries(&self) -> Vec<Instant> {
        self.tries.lock().unwrap().iter().map(|(at, ..)| *at).collect()
    }

    /// Mails that were taken, and when.
    pub(crate) fn taken(&self) -> Vec<(Instant, Email)> {
        let tries = self.tries.lock().unwrap();
        let taken = tries.iter().filter(|(_, _, mailed)| *mailed == SendMailResult::Sent);
        taken.map(|(at, email, _)| (*at, email.clone())).collect()
    }
}

impl Mailer for FakeMailServer {
    fn send(&self, email: Email) -> SendMailFuture<'_> {
        Box::pin(async move {
            let (begun, does) = (Instant::now(), self.does.lock().unwrap().clone());
            tokio::time::sleep(TAKES).await;
            self.tries.lock().unwrap().push((begun, email, does.clone()));
            does
        })
    }

    fn close_idle(&self) -> CloseFuture<'_> {
        Box::pin(async {})
    }
}
