//! Signing secrets of an endpoint: generated or given, shown, rotated. Stored encrypted, never logged.

use super::{Caller, Error, Service};
use crate::{
    domain::{
        app::App,
        audit::AuditAction,
        contract::{Contract, Rotation},
        endpoint::{EncryptedSecret, Endpoint, EndpointRecord},
        secret,
        time::Timestamp,
    },
    runtime::CachedApp,
};
use std::{sync::Arc, time::Duration};

const SECRETS_MAX: usize = 5;
const ROTATION_OVERLAP_DEFAULT: Duration = Duration::from_hours(24);
const ROTATION_AHEAD_MAX: Duration = Duration::from_hours(30 * 24);

/// Request to replace a secret.
#[derive(Clone, Debug, Default)]
pub struct RotateSecret {
    /// Generated if absent.
    pub secret: Option<String>,
    /// How long the old secret still signs beside the new one; for contracts where both sign.
    pub overlap: Option<Duration>,
    /// When the new secret takes over; for contracts where only one signs.
    pub effective_at: Option<Timestamp>,
}

/// Start of the new secret and end of the old ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RotationTimes {
    new_from: Timestamp,
    old_until: Timestamp,
}

impl Service {
    /// Adds a new secret to the endpoint. As the contract says, the old ones sign beside it for a while, or it takes over at an
    /// instant.
    pub async fn rotate_secret(
        &self,
        caller: Caller,
        entry: &CachedApp,
        uid: &str,
        rotate: RotateSecret,
    ) -> Result<Arc<Endpoint>, Error> {
        let app = entry.app();
        let contract = Self::endpoint_of(entry, uid)?.contract.clone();
        let text = self.new_secret(&contract, rotate.secret.clone())?;
        self.update_endpoint(caller, AuditAction::SecretRotated, entry, uid, |endpoint, record, now| {
            let rotation = rotation_times(endpoint.contract.secret.rotation, &rotate, now)?;
            let judged_at = secret::validity_instant(endpoint.secrets.iter().map(|old| old.valid_from), now);
            if endpoint.secrets.iter().any(|old| old.is_valid_at(judged_at) && old.text == text) {
                return Err(Error::field("secret", "is in use already"));
            }
            let encrypted = self.encrypt_secret(&app, record, &text, rotation.new_from, None)?;
            replace_secrets(&mut record.secrets, encrypted, rotation, now);
            Ok(())
        })
        .await
    }

    /// Checks a given secret against the contract, or generates one.
    pub(super) fn new_secret(&self, contract: &Contract, given: Option<String>) -> Result<String, Error> {
        let rule = &contract.secret;
        if let Some(text) = given {
            secret::check(rule, &text).map_err(|message| Error::field("secret", message))?;
            return Ok(text);
        }
        let mut random = vec![0; rule.bytes as usize];
        self.entropy.fill(&mut random);
        Ok(secret::generate(rule, &random))
    }

    pub(super) fn encrypt_secret(
        &self,
        app: &App,
        record: &EndpointRecord,
        text: &str,
        valid_from: Timestamp,
        valid_until: Option<Timestamp>,
    ) -> Result<EncryptedSecret, Error> {
        Ok(EncryptedSecret {
            encrypted: self.encrypt(app, record, text.as_bytes())?,
            valid_from,
            valid_until,
        })
    }
}

fn rotation_times(rotation: Rotation, rotate: &RotateSecret, now: Timestamp) -> Result<RotationTimes, Error> {
    match (rotation, rotate.overlap, rotate.effective_at) {
        (Rotation::Both, _, Some(_)) => {
            let message = "is for contracts with one signature; here both secrets sign during `overlap`";
            Err(Error::field("effective_at", message))
        }
        (Rotation::Switch, Some(_), _) => {
            let message =
                "is for contracts with several signatures; here the new secret takes over at `effective_at`";
            Err(Error::field("overlap", message))
        }
        (Rotation::Both, overlap, None) => {
            let overlap = overlap.unwrap_or(ROTATION_OVERLAP_DEFAULT);
            if overlap > ROTATION_AHEAD_MAX {
                return Err(Error::field("overlap", "must be at most 30d"));
            }
            Ok(RotationTimes { new_from: now, old_until: now.plus(overlap) })
        }
        (Rotation::Switch, None, at) => {
            let at = at.map_or(now, |at| at.max(now));
            if at.since(now) > ROTATION_AHEAD_MAX {
                return Err(Error::field("effective_at", "must be at most 30 days ahead"));
            }
            Ok(RotationTimes { new_from: at, old_until: at })
        }
    }
}

/// Adds the new secret last. Secrets that sign now end at `old_until` or earlier; expired and planned ones are removed.
fn replace_secrets(
    secrets: &mut Vec<EncryptedSecret>,
    new: EncryptedSecret,
    rotation: RotationTimes,
    now: Timestamp,
) {
    let judged_at = secret::validity_instant(secrets.iter().map(|secret| secret.valid_from), now);
    for begun in secrets.iter_mut().filter(|secret| secret.valid_from == judged_at) {
        // This secret signs already, even if this clock is behind the clock of the node that made it.
        begun.valid_from = judged_at.min(now);
    }
    let planned = |secret: &EncryptedSecret| secret.valid_from > now;
    let first_planned = secrets.iter().filter(|secret| planned(secret)).map(|secret| secret.valid_from).min();
    secrets.retain(|secret| !planned(secret) && secret.valid_until.is_none_or(|until| now < until));
    for secret in secrets.iter_mut() {
        // An end that was set only for the planned secret is dropped with it.
        let own_end = secret.valid_until.filter(|until| Some(*until) != first_planned);
        secret.valid_until = Some(own_end.map_or(rotation.old_until, |end| end.min(rotation.old_until)));
    }
    secrets.retain(|secret| secret.valid_until.is_none_or(|until| now < until));
    let surplus = (secrets.len() + 1).saturating_sub(SECRETS_MAX);
    secrets.drain(..surplus);
    secrets.push(new);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn secret(name: u8, from: i64, until: Option<i64>) -> EncryptedSecret {
        EncryptedSecret { encrypted: vec![name], valid_from: at(from), valid_until: until.map(at) }
    }

    fn rotated(
        mut secrets: Vec<EncryptedSecret>,
        new_from: i64,
        old_until: i64,
        now: i64,
    ) -> Vec<EncryptedSecret> {
        let rotation = RotationTimes { new_from: at(new_from), old_until: at(old_until) };
        replace_secrets(&mut secrets, secret(9, new_from, None), rotation, at(now));
        secrets
    }

    #[test]
    fn during_the_overlap_both_are_valid_and_an_earlier_end_is_kept() {
        let before = vec![secret(1, 0, Some(150)), secret(2, 50, None)];
        let after = rotated(before, 100, 200, 100);
        assert_eq!(after, [secret(1, 0, Some(150)), secret(2, 50, Some(200)), secret(9, 100, None)]);
    }

    #[test]
    fn at_a_chosen_instant_the_new_secret_takes_over_without_a_gap() {
        let after = rotated(vec![secret(1, 0, None)], 500, 500, 100);
        assert_eq!(after, [secret(1, 0, Some(500)), secret(9, 500, None)]);
        assert_eq!(rotated(vec![secret(1, 0, None)], 100, 100, 100), [secret(9, 100, None)]);
    }

    #[test]
    fn a_planned_secret_is_replaced_and_the_current_one_signs_until_the_new_instant() {
        let before = vec![secret(1, 0, Some(300)), secret(2, 300, None)];
        assert_eq!(rotated(before, 500, 500, 100), [secret(1, 0, Some(500)), secret(9, 500, None)]);
    }

    #[test]
    fn a_secret_from_a_node_with_a_faster_clock_counts_as_the_current_one() {
        let after = rotated(vec![secret(1, 105, None)], 100, 200, 100);
        assert_eq!(after, [secret(1, 100, Some(200)), secret(9, 100, None)]);
        let planned = vec![secret(1, 105, Some(300)), secret(2, 300, None)];
        assert_eq!(rotated(planned, 500, 500, 100), [secret(1, 100, Some(500)), secret(9, 500, None)]);
    }

    #[test]
    fn expired_secrets_are_removed_and_at_most_five_are_kept() {
        let before = vec![secret(1, 0, Some(90)), secret(2, 50, None)];
        assert_eq!(rotated(before, 100, 200, 100).len(), 2);
        let many = (1..=6).map(|name| secret(name, i64::from(name), None)).collect();
        let after = rotated(many, 100, 200, 100);
        assert_eq!(after.iter().map(|secret| secret.encrypted[0]).collect::<Vec<_>>(), [3, 4, 5, 6, 9]);
    }

    #[test]
    fn the_contract_decides_whether_overlap_or_effective_at_is_allowed() {
        let rotate = |overlap, effective_at| RotateSecret { secret: None, overlap, effective_at };
        let hour = Duration::from_hours(1);
        let both = |rotate| rotation_times(Rotation::Both, &rotate, at(0));
        let switched_at = |rotate| rotation_times(Rotation::Switch, &rotate, at(0));
        assert_eq!(both(rotate(Some(hour), None)).unwrap().old_until, at(3_600_000));
        assert_eq!(both(rotate(None, None)).unwrap().old_until, at(86_400_000));
        assert_eq!(
            switched_at(rotate(None, Some(at(77)))).unwrap(),
            RotationTimes { new_from: at(77), old_until: at(77) }
        );
        assert_eq!(
            switched_at(rotate(None, Some(at(-5)))).unwrap().new_from,
            at(0),
            "a past instant means now"
        );
        for refused in [
            both(rotate(None, Some(at(1)))),
            switched_at(rotate(Some(hour), None)),
            both(rotate(Some(Duration::from_hours(721)), None)),
        ] {
            assert!(matches!(refused, Err(Error::Field(_))), "{refused:?}");
        }
    }
}
