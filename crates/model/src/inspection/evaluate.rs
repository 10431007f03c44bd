//! Evaluates the responses of a receiver to the probes.
//!
//! Forged requests must be refused with a 4xx: that says "this is wrong" and not "try again later". The work of a receiver
//! after its response cannot be seen from outside, and the texts do not pretend otherwise.

use super::{
    CheckName, InspectionCheck, InspectionFinding, InspectionReport, messages,
    probe::{InspectionProbe, ProbeError},
};
use crate::{
    contract::Contract,
    outcome::{Outcome, OutcomeClass},
    verdict::classify,
};
use std::time::Duration;

/// Advised limit for responses: receivers should answer first and work later.
pub(super) const RESPONSE_TIME_MAX: Duration = Duration::from_secs(5);

/// Gathers the checks of one inspection, in their order.
pub struct InspectionEvaluator<'a> {
    contract: &'a Contract,
    checks: Vec<InspectionCheck>,
    /// How long each accepted probe took, in microseconds.
    accepted_us: Vec<u32>,
    /// Why the correct delivery was not accepted; other probes would then prove nothing.
    stopped_by: Option<String>,
}

impl<'a> InspectionEvaluator<'a> {
    pub fn new(contract: &'a Contract) -> Self {
        Self { contract, checks: Vec::new(), accepted_us: Vec::new(), stopped_by: None }
    }

    /// Whether more probes are worth sending.
    pub fn should_continue(&self) -> bool {
        self.stopped_by.is_none()
    }

    pub fn record_response(&mut self, probe: InspectionProbe, mut outcome: Outcome) {
        classify(&mut outcome, self.contract);
        let (finding, advice) = if matches!(
            probe,
            InspectionProbe::Correct | InspectionProbe::Repeated | InspectionProbe::OddJson
        ) {
            evaluate_genuine(probe, &outcome)
        } else {
            evaluate_forged(probe, &outcome)
        };
        let came_back = messages::describe_response(&outcome);
        if outcome.class == OutcomeClass::Ok {
            self.accepted_us.push(outcome.timings.total_us);
        } else if probe == InspectionProbe::Correct {
            self.stopped_by = Some(came_back.clone());
        }
        self.checks.push(InspectionCheck {
            status: outcome.status,
            duration_ms: Some(millis(outcome.timings.total_us)),
            came_back,
            ..self.check(probe, finding, advice)
        });
    }

    /// Records a probe that could not be built.
    pub fn record_unsendable(&mut self, probe: InspectionProbe, why: &ProbeError) {
        let came_back = format!("Nothing was sent: {why}.");
        if probe == InspectionProbe::Correct {
            self.stopped_by = Some(came_back.clone());
        }
        let finding = if probe == InspectionProbe::Correct {
            InspectionFinding::Failed
        } else {
            InspectionFinding::Unknown
        };
        let check = self.check(probe, finding, Some(messages::UNSENDABLE.into()));
        self.checks.push(InspectionCheck { came_back, ..check });
    }

    /// Records a probe that was not sent: it does not apply, or the correct delivery was not accepted.
    pub fn record_not_sent(&mut self, probe: InspectionProbe) {
        let check = if probe.applies_to(self.contract) {
            let reason = self.stopped_by.as_deref().unwrap_or_default();
            let came_back = format!("Not sent: the correct delivery was not accepted. {reason}");
            InspectionCheck {
                came_back,
                ..self.check(probe, InspectionFinding::Unknown, Some(messages::ACCEPT_CORRECT_FIRST.into()))
            }
        } else {
            let advice = Some(messages::no_signed_time(self.contract));
            let came_back = "Not sent: the signed text of this contract has no time in it.".to_owned();
            InspectionCheck { came_back, ..self.check(probe, InspectionFinding::DoesNotApply, advice) }
        };
        self.checks.push(check);
    }

    /// Records the response of the health address; `None` if the endpoint has none.
    pub fn record_health(&mut self, outcome: Option<&Outcome>) {
        let (name, why) = (CheckName::HealthAddress, messages::WHY_HEALTH.to_owned());
        let Some(outcome) = outcome else {
            return self.checks.push(InspectionCheck {
                name,
                finding: InspectionFinding::DoesNotApply,
                status: None,
                duration_ms: None,
                sent: "Nothing.".into(),
                came_back: "The endpoint has no health_url.".into(),
                why,
                advice: Some(messages::NO_HEALTH_URL.into()),
            });
        };
        let is_well = outcome.status.is_some_and(|status| (200..300).contains(&status));
        let finding = match outcome.class {
            OutcomeClass::Local => InspectionFinding::Unknown,
            _ if is_well => InspectionFinding::Passed,
            _ => InspectionFinding::Failed,
        };
        self.checks.push(InspectionCheck {
            name,
            finding,
            status: outcome.status,
            duration_ms: Some(millis(outcome.timings.total_us)),
            sent: "A GET of the health_url.".into(),
            came_back: messages::describe_response(outcome),
            why,
            advice: (finding == InspectionFinding::Failed).then(|| messages::HEALTH_FAILED.into()),
        });
    }

    /// Builds the report, with a check of response times if the correct delivery was checked.
    pub fn into_report(mut self) -> InspectionReport {
        if self.checks.iter().any(|check| check.name == CheckName::CorrectDelivery) {
            let index = self.checks.iter().position(|check| check.name == CheckName::HealthAddress);
            self.checks.insert(index.unwrap_or(self.checks.len()), self.answer_time());
        }
        InspectionReport { contract: self.contract.name.clone(), checks: self.checks }
    }

    fn answer_time(&self) -> InspectionCheck {
        let limit = RESPONSE_TIME_MAX.min(self.contract.timeout);
        let slowest = self.accepted_us.iter().max().copied();
        let (finding, came_back, advice) = match slowest {
            None => (
                InspectionFinding::Unknown,
                "Nothing was accepted.".to_owned(),
                Some(messages::ACCEPT_CORRECT_FIRST),
            ),
            Some(slowest) => {
                let is_quick = Duration::from_micros(slowest.into()) <= limit;
                let (count, time) = (self.accepted_us.len(), messages::describe_time(slowest));
                let came_back = format!("The slowest of {count} accepted requests took {time}.");
                if is_quick {
                    (InspectionFinding::Passed, came_back, None)
                } else {
                    (InspectionFinding::Failed, came_back, Some(messages::TOO_SLOW))
                }
            }
        };
        InspectionCheck {
            name: CheckName::AnswerTime,
            finding,
            status: None,
            duration_ms: slowest.map(millis),
            sent:
                "Nothing more: the accepted requests were timed, from looking up the name to the last byte."
                    .into(),
            came_back,
            why: messages::why_time(self.contract.timeout, limit),
            advice: advice.map(str::to_owned),
        }
    }

    fn check(
        &self,
        probe: InspectionProbe,
        finding: InspectionFinding,
        advice: Option<String>,
    ) -> InspectionCheck {
        InspectionCheck {
            name: probe.check(),
            finding,
            status: None,
            duration_ms: None,
            sent: messages::sent(probe, self.contract),
            came_back: String::new(),
            why: messages::why(probe).into(),
            advice,
        }
    }
}

/// Evaluates a request that a receiver must accept.
fn evaluate_genuine(probe: InspectionProbe, outcome: &Outcome) -> (InspectionFinding, Option<String>) {
    if outcome.class == OutcomeClass::Ok {
        let once = (probe == InspectionProbe::Repeated).then(|| messages::CHECK_PROCESSED_ONCE.to_owned());
        return (InspectionFinding::Passed, once);
    }
    if outcome.class == OutcomeClass::Local {
        return (InspectionFinding::Unknown, Some(messages::LOCAL_FAILURE.into()));
    }
    if probe != InspectionProbe::Correct && asks_to_retry_later(outcome) {
        return (InspectionFinding::Unknown, Some(messages::BUSY.into()));
    }
    (InspectionFinding::Failed, Some(messages::advice_on_refusal(probe, outcome).into()))
}

/// Evaluates a request that a receiver must refuse.
fn evaluate_forged(probe: InspectionProbe, outcome: &Outcome) -> (InspectionFinding, Option<String>) {
    match (outcome.class, outcome.status) {
        (OutcomeClass::Ok, _) => {
            (InspectionFinding::Failed, Some(messages::advice_on_accepted_forgery(probe).into()))
        }
        (OutcomeClass::Http, _) if asks_to_retry_later(outcome) => {
            (InspectionFinding::Unknown, Some(messages::BUSY.into()))
        }
        (OutcomeClass::Http, Some(400..500)) => (InspectionFinding::Passed, None),
        (OutcomeClass::Local | OutcomeClass::Dns | OutcomeClass::AddressRefused, _) => {
            (InspectionFinding::Unknown, Some(messages::LOCAL_FAILURE.into()))
        }
        _ => (InspectionFinding::Failed, Some(messages::REFUSED_WITHOUT_4XX.into())),
    }
}

/// Whether the response says "later", which says nothing about the request.
fn asks_to_retry_later(outcome: &Outcome) -> bool {
    matches!(outcome.status, Some(408 | 425 | 429))
}

fn millis(micros: u32) -> u32 {
    micros.div_ceil(1000)
}
