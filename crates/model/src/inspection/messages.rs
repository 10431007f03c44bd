//! Texts of a report for the owner of the receiver: what was sent, what came back, why it matters, what to do.

use super::probe::{InspectionProbe, OLD_TIMESTAMP_AGE};
use crate::{
    contract::{Contract, Variable},
    outcome::Outcome,
    time::format_duration,
};
use std::time::Duration;

/// Enough to recognise a message of the receiver's own.
const RESPONSE_CHARS_MAX: usize = 160;

pub(super) fn sent(probe: InspectionProbe, contract: &Contract) -> String {
    let header = &contract.signature.header;
    match probe {
        InspectionProbe::Correct => {
            format!("A webhook.test event, signed with the endpoint's secret as the contract {} says.", contract.name)
        }
        InspectionProbe::Tampered => "A correctly signed request in whose body one value was changed afterwards.".into(),
        InspectionProbe::OldTimestamp => {
            format!("A request whose timestamp is {} old, correctly signed.", format_duration(OLD_TIMESTAMP_AGE))
        }
        InspectionProbe::UnknownSignature => {
            format!("A request whose {header} has the right form, but was made with a random secret.")
        }
        InspectionProbe::Repeated => "The correct delivery once more, as a retry: the same ids, a fresh timestamp.".into(),
        InspectionProbe::OddJson => "A correctly signed body of legal JSON that few serialisers would write: raw and escaped \
                           characters beyond ASCII, 1.0, 1e5, a large integer, an empty key, unsorted keys, spaces, \
                           deep nesting."
            .into(),
    }
}

pub(super) const fn why(probe: InspectionProbe) -> &'static str {
    match probe {
        InspectionProbe::Correct => {
            "Everything else can be judged only at a receiver that takes what is right."
        }
        InspectionProbe::Tampered => {
            "Whoever can change a request on its way, or knows the form of one, could change amounts and accounts."
        }
        InspectionProbe::OldTimestamp => {
            "Whoever once recorded a request, from a log or a proxy, could send it again at any later time."
        }
        InspectionProbe::UnknownSignature => {
            "The address of a receiver is no secret: anybody can send it a request."
        }
        InspectionProbe::Repeated => {
            "Every sender repeats itself: an answer can get lost, and then the same event comes again."
        }
        InspectionProbe::OddJson => {
            "Real data holds such values sooner or later. A receiver that parses the body and writes it again before it \
             verifies gets other bytes than those that were signed."
        }
    }
}

pub(super) const WHY_HEALTH: &str =
    "With a health address people can tell a receiver that is down from one that refuses.";
pub(super) const NO_HEALTH_URL: &str =
    "If the receiver has an address that answers 2xx while it is well, set it as health_url on the endpoint.";
pub(super) const HEALTH_FAILED: &str = "Let the health_url answer a plain GET with 2xx, without a redirect and \
     without a key, while the receiver is well.";
pub(super) const CHECK_PROCESSED_ONCE: &str =
    "Whether the work was done only once cannot be seen from outside: look it up in the receiver.";
pub(super) const LOCAL_FAILURE: &str = "The request did not get through from here; inspect again later.";
pub(super) const BUSY: &str =
    "The receiver asked to come back later, which says nothing about the request; inspect again later.";
pub(super) const ACCEPT_CORRECT_FIRST: &str = "Make the receiver accept the correct delivery first.";
pub(super) const UNSENDABLE: &str = "Check the endpoint's contract and rotate its secret.";
pub(super) const REFUSED_WITHOUT_4XX: &str = "It was not accepted, and that protects you. But only a 4xx says that the \
     request is wrong: after any other answer, or none, a sender tries again and people look for an outage. \
     Answer 400 or 401 when verifying fails, and keep 5xx for faults of your own.";
pub(super) const TOO_SLOW: &str =
    "Verify, store the event, answer, and do the work afterwards: a sender that stops waiting tries again.";

pub(super) const fn advice_on_accepted_forgery(probe: InspectionProbe) -> &'static str {
    match probe {
        InspectionProbe::OldTimestamp => {
            "Refuse with 400 what is older than five minutes, by the timestamp that is part of the signed text."
        }
        _ => {
            "Compute the signature over the bytes of the body as they came, compare it in constant time with the one in the \
             header, and answer 401 before anything else is done when they differ."
        }
    }
}

pub(super) const fn advice_on_refusal(probe: InspectionProbe, outcome: &Outcome) -> &'static str {
    match (probe, outcome.status) {
        (InspectionProbe::Repeated, Some(400..500)) => {
            "Recognising the repetition is right, but it must be answered with 2xx: after any other answer the event counts \
             as not delivered, is tried again or ends in the dead letters, although the receiver has it."
        }
        (InspectionProbe::Repeated, _) => {
            "Look the id up before working, and answer 2xx when it is known: an event that came before was delivered."
        }
        (InspectionProbe::OddJson, Some(400..500)) => {
            "Verify the signature over the bytes of the body as they came, before parsing them; and let the parser take any \
             legal JSON."
        }
        (_, Some(401 | 403)) => {
            "The receiver does not accept the signature: check that it has the endpoint's current secret, builds the signed \
             text as the contract says and uses the bytes of the body as they came."
        }
        (_, Some(404 | 405)) => "Check the endpoint's URL: the receiver takes no POST there.",
        (_, Some(410)) => "The receiver says that it is gone. A real delivery may switch the endpoint off.",
        (_, Some(_)) => "Look into the receiver's log for this request, and answer 2xx once it is stored.",
        (_, None) => "Check the endpoint's URL, and that the receiver runs and answers in time.",
    }
}

/// Advice against replays where no time is signed.
pub(super) fn no_signed_time(contract: &Contract) -> String {
    let signs = contract.signature.signs.source();
    let in_header = contract.headers.values().any(|template| template.contains(Variable::T));
    let header = if in_header {
        " A timestamp in a header can be changed by anybody, so it protects nothing."
    } else {
        ""
    };
    format!(
        "The contract signs {signs}, so an old request looks like a new one.{header} What is left against replays is the id: \
         remember every id for as long as a replay could do harm."
    )
}

pub(super) fn why_time(timeout: Duration, limit: Duration) -> String {
    let (timeout, limit) = (format_duration(timeout), format_duration(limit));
    format!(
        "Under this contract a request is given up after {timeout} and tried again. Receivers should answer within {limit}."
    )
}

/// Describes the response, with the start of its body if it is not a success.
pub(super) fn describe_response(outcome: &Outcome) -> String {
    let time = describe_time(outcome.timings.total_us);
    let Some(status) = outcome.status else {
        return format!("No answer: {}.", outcome.error.as_deref().unwrap_or("the reason is not known"));
    };
    let said = one_line(&outcome.response_body);
    if (200..300).contains(&status) || said.is_empty() {
        format!("HTTP {status} after {time}.")
    } else {
        format!("HTTP {status} after {time}, saying “{said}”.")
    }
}

/// Turns the start of an arbitrary body into one line of plain text.
fn one_line(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    // Characters that change the direction of writing could make a terminal show another text than the one received.
    let is_odd = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let plain: String = text.chars().map(|c| if is_odd(c) { ' ' } else { c }).collect();
    let plain = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    match plain.char_indices().nth(RESPONSE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &plain[..end]),
        None => plain,
    }
}

pub(super) fn describe_time(micros: u32) -> String {
    match micros {
        0..1_000_000 => format!("{} ms", micros.div_ceil(1000)),
        _ => format!("{:.1} s", f64::from(micros) / 1e6),
    }
}
