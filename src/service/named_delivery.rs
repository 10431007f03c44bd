//! A delivery with public names, and with the texts that its contract has for it.

use super::{
    Error, Service,
    paging::{DeliveryRow, LastError},
};
use crate::domain::{
    contract::{Contract, ContractHash, RetentionPeriod},
    delivery::{Delivery, DeliveryState, EndReason},
    event::Event,
    time::Timestamp,
};
use std::{collections::HashMap, sync::Arc};

#[derive(Clone, Debug)]
pub struct NamedDelivery {
    pub delivery: Delivery,
    /// Without its data.
    pub event: Event,
    pub endpoint: String,
    /// URL of the last failed attempt; without one, the endpoint's URL, or its last one before it was deleted.
    pub url: Option<String>,
    last_error: Option<LastError>,
    /// The endpoint's contract; for a deleted endpoint, the contract of the last attempt, if any.
    contract: Option<Arc<Contract>>,
    /// Contract of the last attempt: it determined how long a dead letter is kept.
    last_contract: Option<Arc<Contract>>,
}

impl NamedDelivery {
    /// Describes the last error; `None` once delivered.
    pub fn last_error(&self) -> Option<String> {
        self.undelivered_error().and_then(|last| match last.status {
            Some(status) => Some(format!("HTTP {status}")),
            None => last.error.clone(),
        })
    }

    /// Returns the contract's advice for the last answer, if it has any.
    pub fn advice(&self) -> Option<String> {
        self.contract.as_ref()?.answers.advice(self.undelivered_error()?.status?)
    }

    /// Returns the state in the contract's words, or the default name without a contract.
    pub fn contract_status(&self) -> &str {
        let Delivery { state, reason, .. } = self.delivery;
        self.contract.as_ref().map_or(state.name(), |contract| contract.states.of(state, reason))
    }

    /// For a dead delivery: until when it is kept; `None` if until it is deleted by hand. A closed one is kept as long as its
    /// event.
    pub fn expires_at(&self) -> Option<Timestamp> {
        let Delivery { state, reason, finished_at, .. } = self.delivery;
        let died_at =
            finished_at.filter(|_| state == DeliveryState::Dead && reason != Some(EndReason::Closed))?;
        match self.last_contract.as_ref().or(self.contract.as_ref())?.retention.dead_letters {
            RetentionPeriod::For(duration) => Some(died_at.plus(duration)),
            RetentionPeriod::Forever => None,
        }
    }

    fn undelivered_error(&self) -> Option<&LastError> {
        self.last_error.as_ref().filter(|_| self.delivery.state != DeliveryState::Delivered)
    }
}

impl Service {
    pub(super) async fn with_names(&self, listed: Vec<DeliveryRow>) -> Result<Vec<NamedDelivery>, Error> {
        let names = self.endpoint_names(listed.iter().map(|one| one.delivery.endpoint)).await?;
        let mut past = HashMap::new();
        let mut shown = Vec::with_capacity(listed.len());
        for DeliveryRow { delivery, event, last_error, last_contract, last_url } in listed {
            let endpoint = self.config_cache.endpoint(delivery.endpoint);
            let last_contract = match (last_contract, &endpoint) {
                (Some(hash), Some(endpoint)) if endpoint.contract_hash == hash => {
                    Some(endpoint.contract.clone())
                }
                (Some(hash), endpoint) if endpoint.is_none() || delivery.state == DeliveryState::Dead => {
                    self.past_contract(hash, &mut past).await?
                }
                _ => None,
            };
            let contract = endpoint.map(|endpoint| endpoint.contract.clone()).or(last_contract.clone());
            let name = names.get(&delivery.endpoint);
            shown.push(NamedDelivery {
                endpoint: name.map_or_else(|| delivery.endpoint.to_string(), |name| name.uid.clone()),
                url: last_url.or_else(|| name.map(|name| name.url.clone())),
                last_error,
                contract,
                last_contract,
                delivery,
                event,
            });
        }
        Ok(shown)
    }

    /// Reads a stored contract of past attempts, each at most once.
    async fn past_contract(
        &self,
        hash: ContractHash,
        known: &mut HashMap<ContractHash, Option<Arc<Contract>>>,
    ) -> Result<Option<Arc<Contract>>, Error> {
        if let Some(contract) = known.get(&hash) {
            return Ok(contract.clone());
        }
        let document = self.config_store.contract(hash).await?;
        let contract = document.map(|document| Contract::from_json(&document)).transpose();
        let contract = contract.map_err(|error| Error::Internal(format!("contract {hash}: {error}")))?;
        let contract = contract.map(Arc::new);
        known.insert(hash, contract.clone());
        Ok(contract)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{
        contract::fixtures,
        id::{AppId, DeliveryId, EndpointId, EventId},
    };

    fn shown(state: DeliveryState, status: Option<u16>, contract: Option<Contract>) -> NamedDelivery {
        let (id, app, event) = (DeliveryId::from_i64(2), AppId::from_i64(3), EventId::from_i64(1));
        let at = Timestamp::from_millis(0);
        let mut delivery = Delivery::new(id, app, event, EndpointId::from_i64(4), at, None);
        delivery.state = state;
        delivery.finished_at = Some(at);
        let event = Event {
            id: event,
            app,
            external_id: None,
            event_type: "x".into(),
            created_at: at,
            accepted_at: at,
            data: bytes::Bytes::new(),
            key: None,
            deliver_at: None,
            has_no_subscribers: false,
        };
        let last_error = Some(LastError { status, error: Some("timed out".into()) });
        let contract = contract.map(Arc::new);
        let last_contract = contract.clone();
        NamedDelivery {
            delivery,
            event,
            endpoint: "e".into(),
            url: None,
            last_error,
            contract,
            last_contract,
        }
    }

    #[test]
    fn the_last_error_is_the_status_if_there_was_one_and_none_once_delivered() {
        let words = |state, status| shown(state, status, None).last_error();
        assert_eq!(words(DeliveryState::Dead, Some(500)).as_deref(), Some("HTTP 500"));
        assert_eq!(words(DeliveryState::Retrying, None).as_deref(), Some("timed out"));
        assert_eq!(words(DeliveryState::Delivered, Some(500)), None);
    }

    #[test]
    fn advice_and_state_names_come_from_the_contract_or_are_the_defaults() {
        let sendnomi = || Some(fixtures::sendnomi());
        assert!(shown(DeliveryState::Dead, Some(401), sendnomi()).advice().unwrap().contains("answered 401"));
        assert_eq!(shown(DeliveryState::Dead, Some(404), sendnomi()).advice(), None);
        assert_eq!(shown(DeliveryState::Delivered, Some(401), sendnomi()).advice(), None, "it is delivered");
        assert_eq!(shown(DeliveryState::Dead, None, sendnomi()).advice(), None);
        assert_eq!(shown(DeliveryState::Dead, Some(401), Some(fixtures::zerofee())).advice(), None);
        assert_eq!(shown(DeliveryState::Dead, None, Some(fixtures::simpaisa())).contract_status(), "DLQ");
        assert_eq!(shown(DeliveryState::Dead, None, None).contract_status(), "dead");
        assert_eq!(shown(DeliveryState::Dead, None, Some(fixtures::orientedos())).expires_at(), None);
        let month = Timestamp::from_millis(30 * 86_400_000);
        assert_eq!(shown(DeliveryState::Dead, None, Some(fixtures::zerofee())).expires_at(), Some(month));
    }
}
