//! Sends notices by mail: one at a time, apps in turn, no faster than the operator allows.
//!
//! While the mail server is down there is one try for all that waits, after growing pauses. No notice is lost, and when it
//! is back everything is sent at the usual pace.

use super::{delivery_worker::DeliveryWorker, leader::LeaderRole};
use crate::{
    domain::{
        id::AppId,
        notice::{Email, EmailRenderer, Notice},
        time::Timestamp,
    },
    outbound::{Mailer, SendMailResult},
    runtime::{Clock, ConfigCache, LeaderGuard, MailResult, Metrics, Shutdown},
    store::{
        DeliveryStore, StoreError,
        notices::{MailCursor, MailOutcome, NoticeBatch},
    },
};
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::sync::Notify;

/// Cooldown of an app after a mail about endpoints; notices that come meanwhile gather.
const MAIL_COOLDOWN: Duration = Duration::from_mins(1);
/// Pause after the first failure; twice as long each time.
const MAIL_ERROR_PAUSE: Duration = Duration::from_secs(5);
const MAIL_ERROR_PAUSE_MAX: Duration = Duration::from_mins(10);
/// How long a mail that is on its way is waited for when the engine stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);
/// Pause after a store error.
const STORE_ERROR_PAUSE: Duration = Duration::from_secs(1);

/// Settings for sending mails.
#[derive(Clone)]
pub struct MailSettings {
    pub mailer: Arc<dyn Mailer>,
    /// Address for notices of apps that have no address of their own.
    pub operator_email: Option<String>,
    /// URL of the dashboard, without a slash at the end.
    pub public_url: Option<String>,
    pub per_minute_max: u32,
}

pub(super) struct NoticeMailer {
    config_cache: Arc<ConfigCache>,
    delivery_store: Arc<dyn DeliveryStore>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    /// Notified when a notice was written.
    notices_waiting: Arc<Notify>,
    /// No mails are sent without it.
    settings: Option<MailSettings>,
    /// How often it checks without a notification.
    every: Duration,
    progress: MailProgress,
    leader: LeaderRole,
}

/// Progress of the mailer.
struct MailProgress {
    /// App that was served last.
    last_app: AppId,
    /// Apps whose notices gather, and until when.
    cooling_down: HashMap<AppId, Timestamp>,
    /// Failures since the last mail that the server took or refused.
    failures: u32,
    /// Time before which no mail is tried.
    next_at: Timestamp,
}

impl Default for MailProgress {
    fn default() -> Self {
        let start = Timestamp::from_millis(0);
        Self { last_app: AppId::from_i64(0), cooling_down: HashMap::new(), failures: 0, next_at: start }
    }
}

impl NoticeMailer {
    pub(super) fn new(
        delivery_worker: &DeliveryWorker,
        notices_waiting: Arc<Notify>,
        settings: Option<MailSettings>,
        every: Duration,
        leader: LeaderRole,
    ) -> Self {
        Self {
            config_cache: delivery_worker.config_cache.clone(),
            delivery_store: delivery_worker.delivery_store.clone(),
            clock: delivery_worker.clock.clone(),
            metrics: delivery_worker.metrics.clone(),
            notices_waiting,
            settings,
            every,
            progress: MailProgress::default(),
            leader,
        }
    }

    pub(super) async fn run(mut self, stop: Shutdown) {
        let out_of_patience = async {
            stop.graceful().await;
            tokio::time::sleep(STOP_TIMEOUT).await;
        };
        // A mail that is on its way may arrive; one that does not is sent again by the next process, under the same id.
        tokio::select! {
            biased;
            () = out_of_patience => {}
            () = self.work(&stop) => {}
        }
    }

    async fn work(&mut self, stop: &Shutdown) {
        while !stop.is_graceful() {
            let notify = self.notices_waiting.clone();
            // Registered before the step, so that no notification is missed.
            let notified = notify.notified();
            let Some(leadership) = self.lead(stop).await else { return };
            let come_back = self.step().await;
            let come_back = self.leader.next_check_at(come_back);
            drop(leadership);
            tokio::select! {
                biased;
                () = stop.graceful() => {}
                () = notified => {}
                () = self.clock.idle_until(come_back) => {}
            }
        }
    }

    /// Waits until this node is the leader; `None` if it is stopped before.
    async fn lead(&self, stop: &Shutdown) -> Option<LeaderGuard> {
        tokio::select! {
            biased;
            () = stop.graceful() => None,
            leadership = self.leader.lead() => Some(leadership),
        }
    }

    /// Sends one mail if one may be sent now. Returns when to come back.
    pub(super) async fn step(&mut self) -> Timestamp {
        let now = self.clock.now();
        // A wait beyond the longest pause is only due to a clock that was set back.
        if now < self.progress.next_at && self.progress.next_at.since(now) <= MAIL_ERROR_PAUSE_MAX {
            return self.progress.next_at;
        }
        self.progress.cooling_down.retain(|_, until| now < *until && until.since(now) <= MAIL_COOLDOWN);
        let resting = self.progress.cooling_down.keys().copied().collect();
        let leadership = MailCursor { after: self.progress.last_app, collecting: resting };
        match self.delivery_store.next_mail(leadership, now).await {
            Ok(NoticeBatch { notices, .. }) if !notices.is_empty() => self.deliver(&notices, now).await,
            Ok(NoticeBatch { closes_at, .. }) => {
                if let Some(post) = &self.settings {
                    post.mailer.close_idle().await;
                }
                let cooled_down_at = self.progress.cooling_down.values().min().copied();
                [closes_at, cooled_down_at].into_iter().flatten().fold(now.plus(self.every), Timestamp::min)
            }
            Err(error) => {
                tracing::warn!(%error, "could not take notices to mail");
                now.plus(STORE_ERROR_PAUSE)
            }
        }
    }

    async fn deliver(&mut self, notices: &[Notice], now: Timestamp) -> Timestamp {
        let Some(first) = notices.first() else { return now };
        self.progress.last_app = first.app;
        let (post, email) = match self.compose(notices, now) {
            Ok(found) => found,
            Err(why) => return self.record_result(first, MailOutcome::NoRecipient(why), now).await,
        };
        let mailed = post.mailer.send(email).await;
        let now = self.clock.now();
        if let SendMailResult::Down(error) = mailed {
            let pause = MAIL_ERROR_PAUSE
                .saturating_mul(1 << self.progress.failures.min(10))
                .min(MAIL_ERROR_PAUSE_MAX);
            self.progress.failures += 1;
            self.progress.next_at = now.plus(pause);
            self.metrics.count_mail(MailResult::Failed);
            tracing::warn!(%error, again_after = ?pause, "a mail could not be sent; everything that waits is kept");
            return self.progress.next_at;
        }
        if std::mem::take(&mut self.progress.failures) > 0 {
            tracing::info!("the mail server takes mails again");
        }
        let spacing = Duration::from_mins(1) / post.per_minute_max.max(1);
        self.progress.next_at = now.plus(spacing);
        let end = match mailed {
            SendMailResult::Refused(words) => {
                tracing::warn!(notice = %first.id, answer = %words, "the mail server refused a notice for good");
                self.metrics.count_mail(MailResult::Refused);
                MailOutcome::Rejected(words)
            }
            SendMailResult::Sent | SendMailResult::Down(_) => {
                self.metrics.count_mail(MailResult::Sent);
                MailOutcome::Sent
            }
        };
        if first.kind.gathers() {
            self.progress.cooling_down.insert(first.app, now.plus(MAIL_COOLDOWN));
        }
        self.record_result(first, end, self.progress.next_at).await
    }

    /// Returns the mail and the settings to send it with, or why it is not sent.
    fn compose(&self, notices: &[Notice], now: Timestamp) -> Result<(MailSettings, Email), String> {
        let post = self.settings.clone().ok_or("no mail server is set (smtp_server)")?;
        let app = notices.first().and_then(|first| self.config_cache.app_by_id(first.app));
        let app = app.ok_or("the app was deleted")?.app();
        let to = app.settings.contact_email.clone().or_else(|| post.operator_email.clone());
        let to = to.ok_or("the app has no contact_email, and operator_email is not set")?;
        let renderer = EmailRenderer {
            app: &app,
            endpoints: &*self.config_cache,
            public_url: post.public_url.as_deref(),
        };
        let email = renderer.render(notices, to, now).ok_or("there is nothing to tell")?;
        Ok((post, email))
    }

    /// Records the result, and tries again until the store takes it: a mail that was sent must not be sent again for want of
    /// a record.
    async fn record_result(&self, first: &Notice, end: MailOutcome, come_back: Timestamp) -> Timestamp {
        loop {
            let now = self.clock.now();
            match self.delivery_store.finish_mail(first.app, first.id, end.clone(), now).await {
                Ok(()) => return come_back,
                Err(error @ (StoreError::Closed | StoreError::Corrupt(_))) => {
                    tracing::error!(%error, notice = %first.id, "could not record the result of a mail");
                    return now.plus(self.every);
                }
                Err(error) => {
                    tracing::warn!(%error, notice = %first.id, "could not record the result of a mail");
                    self.clock.idle_until(now.plus(STORE_ERROR_PAUSE)).await;
                }
            }
        }
    }
}
