//! Probes: six requests to a receiver, built like real ones, each wrong in one way or correct.
//!
//! Every request is an event of its own, so that no receiver takes it for a repetition; only the repeated one has the ids
//! of the correct one, as a retry would.

use super::CheckName;
use crate::{
    app::App,
    body::{self, EventParts, SerialisationError},
    contract::{Contract, Variable},
    endpoint::Endpoint,
    event::TEST_EVENT_TYPE,
    id::{AttemptId, DeliveryId, EventId, InspectionId},
    request_headers::{self, Header, RequestParts},
    secret::{self, Secret},
    signing_keys::{SigningError, SigningKeys},
    time::Timestamp,
};
use bytes::Bytes;
use std::{borrow::Cow, time::Duration};

/// Header of every request of an inspection, to recognise it in logs.
pub const INSPECTION_HEADER: &str = "posthaste-inspection";

/// Far beyond any tolerance that receivers use.
pub(super) const OLD_TIMESTAMP_AGE: Duration = Duration::from_hours(1);

/// Probes in the order they are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InspectionProbe {
    Correct,
    Tampered,
    OldTimestamp,
    UnknownSignature,
    Repeated,
    OddJson,
}

impl InspectionProbe {
    pub const ALL: [Self; 6] = [
        Self::Correct,
        Self::Tampered,
        Self::OldTimestamp,
        Self::UnknownSignature,
        Self::Repeated,
        Self::OddJson,
    ];

    pub const fn check(self) -> CheckName {
        match self {
            Self::Correct => CheckName::CorrectDelivery,
            Self::Tampered => CheckName::TamperedBody,
            Self::OldTimestamp => CheckName::OldTimestamp,
            Self::UnknownSignature => CheckName::UnknownSignature,
            Self::Repeated => CheckName::RepeatedId,
            Self::OddJson => CheckName::OddJson,
        }
    }

    /// Whether the probe fits the contract. An old timestamp does not where the time is not signed.
    pub fn applies_to(self, contract: &Contract) -> bool {
        self != Self::OldTimestamp || contract.signature.signs.contains(Variable::T)
    }

    /// Probe whose event the request has: the repeated one has that of the correct one.
    const fn event(self) -> Self {
        match self {
            Self::Repeated => Self::Correct,
            own => own,
        }
    }
}

/// Why a probe cannot be built, in words for the endpoint's owner.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    #[error(transparent)]
    Serialisation(#[from] SerialisationError),
    #[error(transparent)]
    Signing(#[from] SigningError),
}

/// A probe, ready to be sent.
#[derive(Debug)]
pub struct ProbeRequest {
    pub headers: Vec<Header>,
    pub body: Bytes,
}

/// The endpoint under inspection, as it was when the inspection began.
pub struct InspectionSubject<'a> {
    inspection: InspectionId,
    app: &'a App,
    endpoint: &'a Endpoint,
    /// Signs as the endpoint's secrets do now, also for times before they were made.
    signing_keys: SigningKeys,
    /// Signs with a random secret that the receiver does not have.
    unknown_signer: SigningKeys,
    started_at: Timestamp,
}

impl<'a> InspectionSubject<'a> {
    /// Prepares the signers. `random` makes the secret that the receiver does not have.
    pub fn new(
        inspection: InspectionId,
        app: &'a App,
        endpoint: &'a Endpoint,
        now: Timestamp,
        random: [u8; 32],
    ) -> Result<Self, ProbeError> {
        let contract = &*endpoint.contract;
        let judged_at =
            secret::validity_instant(endpoint.secrets.iter().map(|secret| secret.valid_from), now);
        let valid = endpoint.secrets.iter().filter(|secret| secret.is_valid_at(judged_at));
        let lasting: Vec<Secret> = valid
            .map(|secret| Secret {
                text: secret.text.clone(),
                valid_from: Timestamp::from_millis(
                    secret.valid_from.as_millis().saturating_sub(2 * OLD_TIMESTAMP_AGE.as_millis() as i64),
                ),
                valid_until: None,
            })
            .collect();
        let newest = lasting.last().ok_or(SigningError::NoValidSecret)?;
        let unknown = Secret {
            text: secret::generate_like(&contract.secret, &newest.text, &random),
            valid_from: Timestamp::from_millis(i64::MIN),
            valid_until: None,
        };
        Ok(Self {
            inspection,
            app,
            endpoint,
            signing_keys: SigningKeys::prepare_usable(contract, &lasting)?,
            unknown_signer: SigningKeys::prepare(contract, &[unknown])?,
            started_at: now,
        })
    }

    /// Builds the probe as it is sent at `now`.
    pub fn request(&self, probe: InspectionProbe, now: Timestamp) -> Result<ProbeRequest, ProbeError> {
        let contract = &*self.endpoint.contract;
        let index = InspectionProbe::ALL.iter().position(|known| *known == probe.event()).unwrap_or_default();
        let first = self.inspection.as_i64() + 1 + 2 * index as i64;
        let (own_id, root) = (EventId::from_i64(first), DeliveryId::from_i64(first + 1));
        let public_id = own_id.with_prefix(self.app.id_prefix());
        let earlier =
            |at: Timestamp| Timestamp::from_millis(at.as_millis() - OLD_TIMESTAMP_AGE.as_millis() as i64);
        let is_old = probe == InspectionProbe::OldTimestamp;
        let data = self.data(probe, 100);
        let parts = EventParts {
            public_id: &public_id,
            own_id,
            event_type: TEST_EVENT_TYPE,
            created_at: if is_old { earlier(self.started_at) } else { self.started_at },
            data: data.as_bytes(),
            app_uid: &self.app.uid,
            livemode: self.app.settings.livemode,
            payload_version: self.endpoint.record.settings.payload_version.as_deref().unwrap_or("1"),
        };
        let signed = body::render(contract, &parts, root)?;
        let number = if probe == InspectionProbe::Repeated { 2 } else { 1 };
        let request = RequestParts {
            event: &parts,
            root,
            attempt: AttemptId { delivery: root, position: number },
            number,
            now: if is_old { earlier(now) } else { now },
            body: &signed,
        };
        let signing_keys = if probe == InspectionProbe::UnknownSignature {
            &self.unknown_signer
        } else {
            &self.signing_keys
        };
        let mut headers = request_headers::render_headers(contract, signing_keys, &request)?;
        headers.push(inspection_header(self.inspection));
        let body = if probe == InspectionProbe::Tampered {
            let changed = self.data(probe, 900);
            body::render(contract, &EventParts { data: changed.as_bytes(), ..parts }, root)?
        } else {
            signed
        };
        Ok(ProbeRequest { headers, body })
    }

    fn data(&self, probe: InspectionProbe, amount: u32) -> String {
        let oddities = if probe == InspectionProbe::OddJson { odd_json_members() } else { String::new() };
        format!(
            r#"{{"test":true,"inspection":"{}","probe":"{}","amount":{amount}{oddities}}}"#,
            self.inspection,
            probe.event().check().name()
        )
    }
}

/// Headers of a GET of the health address. The endpoint's own headers are left out: they may hold a credential, and the
/// health address may be another server's.
pub fn health_headers(inspection: InspectionId) -> Vec<Header> {
    vec![inspection_header(inspection)]
}

fn inspection_header(inspection: InspectionId) -> Header {
    (Cow::Borrowed(INSPECTION_HEADER), inspection.to_string())
}

/// Further members for an object: legal JSON without duplicate names, in forms that no serialiser writes.
fn odd_json_members() -> String {
    let deep = format!("{}{}", "[".repeat(32), "]".repeat(32));
    [
        r#", "text" : "é ü 日本 😀 \ud83d\ude00 \u00e9 <script>&amp;</script> \u2028"#,
        "\u{2028}",
        r#" \/ \t","numbers":[1.0,1e5,1E-7,-0,12345678901234567890,0.10],"z":{"b":1,"a":{"d":[],"c":{}}},"":"empty key","#,
        r#""spaces" : [ 1 ,  2 ] ,"deep":"#,
        &deep,
    ]
    .concat()
}
