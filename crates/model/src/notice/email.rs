//! Renders one or several notices of an app as a plain-text mail: what happened, since when, the last error, what to do, and
//! where to look.
//!
//! All text from outside goes through `one_line`, so that no name can inject a header.

use super::{Digest, Notice, NoticeKind, one_line};
use crate::{app::App, id::EndpointId, ports::EndpointLookup, time::Timestamp};
use std::fmt::Write;

const NAME_CHARS_MAX: usize = 60;
const LINE_CHARS_MAX: usize = 500;
/// Notices of one mail that are written in full, and as a line each; the rest is only counted.
const NOTICES_IN_FULL_MAX: usize = 10;
const NOTICES_BY_LINE_MAX: usize = 100;

/// A mail ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Email {
    /// The mail's id, unchanged when it is sent again; its `Message-ID` is derived from it.
    pub id: String,
    pub to: String,
    pub subject: String,
    pub body: String,
    pub at: Timestamp,
}

/// The renderer of mails about one app.
pub struct EmailRenderer<'a> {
    pub app: &'a App,
    pub endpoints: &'a dyn EndpointLookup,
    /// The dashboard's URL, without a slash at the end.
    pub public_url: Option<&'a str>,
}

impl EmailRenderer<'_> {
    /// Renders the notices as one mail; returns `None` if there are none.
    pub fn render(&self, notices: &[Notice], to: String, now: Timestamp) -> Option<Email> {
        let first = notices.first()?;
        let app = one_line(&self.app.settings.name, NAME_CHARS_MAX);
        let subject = match notices.len() {
            1 => self.headline(first),
            count => format!("{count} notices, the first: {}", self.headline(first)),
        };
        let mut body = String::new();
        for (index, notice) in notices.iter().enumerate().take(NOTICES_IN_FULL_MAX) {
            if index > 0 {
                body.push_str("\n----\n\n");
            }
            self.write_notice(notice, &mut body);
        }
        let rest = notices.get(NOTICES_IN_FULL_MAX..).unwrap_or_default();
        if !rest.is_empty() {
            body.push_str("\n----\n\nAnd:\n");
            for notice in rest.iter().take(NOTICES_BY_LINE_MAX) {
                let _ = writeln!(body, "- {}: {}", notice.at.rfc3339_seconds(), self.headline(notice));
            }
            if rest.len() > NOTICES_BY_LINE_MAX {
                let _ = writeln!(body, "- and {} more", rest.len() - NOTICES_BY_LINE_MAX);
            }
        }
        let _ = write!(body, "\n-- \nSent by Posthaste; nobody reads answers to this mail.\n");
        let _ = writeln!(body, "All notices of this app: {}", self.url_of("/notices"));
        // Notice ids may repeat after a new store; with the time and the app's id the mail's id is unique.
        let id = format!("{}.{}.{}", first.id, first.at.as_millis(), first.app);
        Some(Email { id, to, subject: format!("[Posthaste] {app}: {subject}"), body, at: now })
    }

    /// Describes what happened without a full stop, for a subject or a line.
    fn headline(&self, notice: &Notice) -> String {
        let endpoint = notice
            .endpoint
            .map_or_else(|| "an endpoint".to_owned(), |id| format!("endpoint {}", self.uid(id)));
        match notice.kind {
            NoticeKind::EndpointDegraded => format!("{endpoint} is degraded"),
            NoticeKind::EndpointWarning => format!("{endpoint} is about to be switched off"),
            NoticeKind::EndpointDisabled => format!("{endpoint} was switched off"),
            NoticeKind::EndpointRecovered => format!("{endpoint} is well again"),
            NoticeKind::DeliveryDead if notice.count > 1 => format!("{} deliveries are dead", notice.count),
            NoticeKind::DeliveryDead => format!("a delivery to {endpoint} is dead"),
            NoticeKind::ReplayFinished => {
                format!(
                    "{} is finished",
                    notice.replay.map_or_else(|| "a replay".to_owned(), |id| id.to_string())
                )
            }
        }
    }

    fn write_notice(&self, notice: &Notice, out: &mut String) {
        let facts = &notice.details;
        let _ = writeln!(out, "{}\n", one_line(&facts.text, LINE_CHARS_MAX));
        let mut line = |name: &str, value: String| {
            let _ = writeln!(out, "{name:<12} {value}");
        };
        let app = one_line(&self.app.settings.name, NAME_CHARS_MAX);
        line("App:", format!("{app} ({})", self.app.uid));
        if notice.count == 1
            && let Some(id) = notice.endpoint
        {
            line("Endpoint:", self.endpoint(id));
        }
        line("At:", notice.at.rfc3339_seconds());
        for (name, at) in [("Since:", facts.since), ("Off at:", facts.disables_at)] {
            if let Some(at) = at {
                line(name, at.rfc3339_seconds());
            }
        }
        for (name, text) in [("Last error:", &facts.last_error), ("Reason:", &facts.reason)] {
            if let Some(text) = text {
                line(name, one_line(text, LINE_CHARS_MAX));
            }
        }
        if notice.count == 1
            && let Some(delivery) = notice.delivery
        {
            line("Delivery:", delivery.to_string());
        }
        if notice.count == 1
            && let Some(event) = &notice.event
        {
            let id = one_line(&event.public_id(self.app.id_prefix()), 128);
            line("Event:", format!("{id} ({})", one_line(&event.event_type, 128)));
        }
        if let Some(digest) = notice.digest.as_ref().filter(|_| notice.count > 1) {
            self.write_digest(digest, out);
        }
        let _ = write!(out, "\n{}\n\n{}\n", advice(notice), self.link(notice));
    }

    fn write_digest(&self, digest: &Digest, out: &mut String) {
        out.push_str("\nBy endpoint:\n");
        for of in digest.endpoints() {
            let _ = writeln!(out, "- {}: {}", self.endpoint(of.id()), of.count);
        }
        if digest.other_endpoints > 0 {
            let _ = writeln!(out, "- at other endpoints: {}", digest.other_endpoints);
        }
        for (name, example) in [("First:", &digest.first), ("Last:", &digest.last)] {
            let _ = write!(out, "{name:<7}{}", example.at.rfc3339_seconds());
            if let Some(delivery) = example.delivery() {
                let _ = write!(out, ", {delivery}");
            }
            if let Some(error) = &example.last_error {
                let _ = write!(out, ", {}", one_line(error, LINE_CHARS_MAX));
            }
            out.push('\n');
        }
    }

    fn link(&self, notice: &Notice) -> String {
        let endpoint = || notice.endpoint.map(|id| format!("/endpoints/{}", self.uid(id)));
        self.url_of(&match notice.kind {
            NoticeKind::DeliveryDead if notice.count > 1 => "/dead-letters".to_owned(),
            NoticeKind::DeliveryDead => {
                notice.delivery.map_or_else(|| "/dead-letters".to_owned(), |id| format!("/deliveries/{id}"))
            }
            NoticeKind::ReplayFinished => {
                notice.replay.map_or_else(|| "/replays".to_owned(), |id| format!("/replays/{id}"))
            }
            _ => endpoint().unwrap_or_default(),
        })
    }

    /// Returns the dashboard's URL of a path in the app, or the API request for it.
    fn url_of(&self, path: &str) -> String {
        match self.public_url {
            Some(url) => format!("{url}/apps/{}{path}", self.app.uid),
            None => format!("GET /v1/apps/{}{path}", self.app.uid),
        }
    }

    fn uid(&self, id: EndpointId) -> String {
        self.endpoints.endpoint(id).map_or_else(|| id.to_string(), |known| known.record.uid.clone())
    }

    fn endpoint(&self, id: EndpointId) -> String {
        match self.endpoints.endpoint(id) {
            Some(known) => {
                format!("{}, {}", known.record.uid, one_line(&known.record.settings.url, LINE_CHARS_MAX))
            }
            None => format!("{id}, which was deleted"),
        }
    }
}

/// Returns the advice on what to do now.
fn advice(notice: &Notice) -> String {
    match notice.kind {
        NoticeKind::EndpointDegraded => {
            "What to do: look at what its receiver answers. Deliveries are tried again meanwhile.".to_owned()
        }
        NoticeKind::EndpointWarning => {
            let by = notice
                .details
                .disables_at
                .map_or_else(String::new, |at| format!(" before {}", at.rfc3339_seconds()));
            format!(
                "What to do: make its receiver take deliveries again{by}, or the endpoint is switched off."
            )
        }
        NoticeKind::EndpointDisabled => {
            "What to do: repair the receiver, then switch the endpoint on again; until then \
             nothing is sent to it."
                .to_owned()
        }
        NoticeKind::EndpointRecovered => "There is nothing to do.".to_owned(),
        NoticeKind::DeliveryDead => {
            "What to do: repair the receiver, then replay what is dead, or close it. Nothing is sent \
             again by itself."
                .to_owned()
        }
        NoticeKind::ReplayFinished => "There is nothing to do, unless some could not be sent.".to_owned(),
    }
}
