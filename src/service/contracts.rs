//! All contracts by name, and the contracts of endpoints with their overrides applied, built once and shared.

use super::{
    Caller, Error, Service,
    paging::{Cursor, Page, page_by_id},
};
use crate::domain::{
    api_key::Scope,
    contract::{Contract, ContractHash, OverrideLevel},
    field_error::{FieldError, nearest},
};
use serde_json::{Map, Value};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError, Weak},
};

pub(super) const DEFAULT_CONTRACT: &str = "standard";

/// A contract as an endpoint uses it.
#[derive(Clone, Debug)]
pub(super) struct ResolvedContract {
    pub contract: Arc<Contract>,
    pub hash: ContractHash,
}

/// Overrides that are applied to a contract, in this order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OverrideLayers<'a> {
    pub app: Option<&'a Value>,
    pub endpoint: Option<&'a Value>,
}

/// Identifies a resolved contract by its origin: the contract's name and the overrides as text.
type ContractOrigin = (String, [Option<String>; 2]);

#[derive(Debug)]
pub(super) struct Contracts {
    by_name: BTreeMap<String, ResolvedContract>,
    /// Endpoints with equal overrides share one contract, for as long as any of them uses it.
    overridden: Mutex<HashMap<ContractOrigin, (Weak<Contract>, ContractHash)>>,
}

impl Service {
    /// Lists all contracts by name.
    pub fn contracts(&self, after: Option<Cursor>, limit: u32) -> Page<Arc<Contract>> {
        let all = self.contracts.by_name.values().map(|named| named.contract.clone());
        let page = page_by_id(all.enumerate().collect(), |(index, _)| *index as i64 + 1, after, limit);
        Page { rows: page.rows.into_iter().map(|(_, contract)| contract).collect(), next: page.next }
    }

    pub fn contract(&self, name: &str) -> Result<Arc<Contract>, Error> {
        let named = self.contracts.by_name.get(name).ok_or(Error::NotFound("contract"))?;
        Ok(named.contract.clone())
    }
}

impl Contracts {
    /// If two contracts have the same name, the last one is used.
    pub(super) fn new(contracts: Vec<Contract>) -> Self {
        let resolved = |contract: Contract| {
            let hash = contract.hash();
            (contract.name.clone(), ResolvedContract { contract: Arc::new(contract), hash })
        };
        Self { by_name: contracts.into_iter().map(resolved).collect(), overridden: Mutex::default() }
    }

    pub(super) fn get(&self, name: &str) -> Result<&ResolvedContract, Error> {
        self.by_name.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.by_name.keys().map(String::as_str).collect();
            let hint = match nearest(name, &known) {
                Some(near) => format!("there is no such contract; did you mean `{near}`?"),
                None => format!("there is no such contract; known: {}", known.join(", ")),
            };
            Error::field("contract", hint)
        })
    }

    /// Applies the overrides to the named contract. Stored overrides were checked when they were set.
    pub(super) fn resolve(&self, name: &str, layers: OverrideLayers) -> Result<ResolvedContract, Error> {
        let named = self.get(name)?;
        let OverrideLayers { app, endpoint } = layers;
        if app.is_none() && endpoint.is_none() {
            return Ok(named.clone());
        }
        let origin = (name.to_owned(), [app, endpoint].map(|layer| layer.map(Value::to_string)));
        let mut known = self.overridden.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((contract, hash)) = known.get(&origin)
            && let Some(contract) = contract.upgrade()
        {
            return Ok(ResolvedContract { contract, hash: *hash });
        }
        let mut contract = Contract::clone(&named.contract);
        if let Some(app) = app {
            contract = contract.with_overrides(app, OverrideLevel::Operator).map_err(|error| {
                Error::field("contract", format!("does not go with the app's overrides: {error}"))
            })?;
        }
        if let Some(endpoint) = endpoint {
            contract = contract.with_overrides(endpoint, OverrideLevel::Operator).map_err(in_overrides)?;
        }
        let hash = contract.hash();
        let contract = Arc::new(contract);
        if known.len() == known.capacity() {
            known.retain(|_, (contract, _)| contract.strong_count() > 0);
        }
        known.insert(origin, (Arc::downgrade(&contract), hash));
        Ok(ResolvedContract { contract, hash })
    }

    /// Whether an app with this contract may have these overrides.
    pub(super) fn check_overrides_of_app(&self, name: &str, overrides: &Value) -> Result<(), Error> {
        self.get(name)?.contract.with_overrides(overrides, OverrideLevel::Operator).map_err(in_overrides)?;
        Ok(())
    }

    /// Returns the overrides to store when `caller` asks for `requested`. A caller leaves unchanged the fields that only a
    /// higher-ranking key may set. `layers` are the stored overrides of the app and of the endpoint.
    pub(super) fn allowed_overrides(
        &self,
        name: &str,
        layers: OverrideLayers,
        requested: Option<Value>,
        caller: Caller,
    ) -> Result<Option<Value>, Error> {
        let base = self.resolve(name, OverrideLayers { endpoint: None, ..layers })?.contract;
        let setter = match caller.scope {
            Scope::Admin => OverrideLevel::Operator,
            Scope::App(_) | Scope::Publish(_) | Scope::Read(_) => OverrideLevel::App,
            Scope::Portal(_) | Scope::PortalRead(_) => OverrideLevel::Portal,
        };
        if let Some(requested) = &requested
            && let Err(error) = base.with_overrides(requested, setter)
        {
            let error = in_overrides(error);
            return Err(match base.with_overrides(requested, OverrideLevel::Operator) {
                Ok(_) => Error::Forbidden { detail: error.to_string(), field: Some(error.field) },
                Err(_) => error.into(),
            });
        }
        if setter == OverrideLevel::Operator {
            return Ok(requested);
        }
        let mut kept = layers.endpoint.map(|stored| beyond_setter(stored, setter)).unwrap_or_default();
        for (path, value) in requested.iter().flat_map(leaves) {
            set_field(&mut kept, &path, value);
        }
        Ok(if kept.is_empty() { requested } else { Some(Value::Object(kept)) })
    }
}

/// Names the field as the caller wrote it.
fn in_overrides(error: FieldError) -> FieldError {
    let field = match error.field.as_str() {
        "contract" => "overrides".to_owned(),
        inner => format!("overrides.{inner}"),
    };
    FieldError { field, ..error }
}

/// Returns the stored overrides that `setter` may not set.
fn beyond_setter(stored: &Value, setter: OverrideLevel) -> Map<String, Value> {
    let mut kept = Map::new();
    for (path, value) in leaves(stored) {
        let mut alone = Map::new();
        set_field(&mut alone, &path, value);
        if Contract::check_overrides(&Value::Object(alone), setter).is_err() {
            set_field(&mut kept, &path, value);
        }
    }
    kept
}

/// Returns every field that overrides set, by section and name. A field outside a section has no second name.
fn leaves(overrides: &Value) -> Vec<((&str, Option<&str>), &Value)> {
    let mut leaves = Vec::new();
    for (name, value) in overrides.as_object().into_iter().flatten() {
        match value {
            Value::Object(section) => {
                leaves.extend(
                    section.iter().map(|(inner, value)| ((name.as_str(), Some(inner.as_str())), value)),
                );
            }
            value => leaves.push(((name.as_str(), None), value)),
        }
    }
    leaves
}

fn set_field(into: &mut Map<String, Value>, (name, inner): &(&str, Option<&str>), value: &Value) {
    match inner {
        None => drop(into.insert((*name).to_owned(), value.clone())),
        Some(inner) => {
            let section = into.entry(*name).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(section) = section {
                section.insert((*inner).to_owned(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::AppId;
    use serde_json::json;

    const ADMIN: Caller = Caller::OPERATOR;
    const APP: Caller = Caller { scope: Scope::App(AppId::from_i64(1)), ..Caller::OPERATOR };
    const PORTAL: Caller = Caller { scope: Scope::Portal(AppId::from_i64(1)), ..Caller::OPERATOR };

    fn over(endpoint: Option<&Value>) -> OverrideLayers<'_> {
        OverrideLayers { app: None, endpoint }
    }

    fn contracts() -> Contracts {
        Contracts::new(Contract::builtin().unwrap())
    }

    #[test]
    fn an_app_key_cannot_set_or_remove_the_operators_overrides() {
        let contracts = contracts();
        let stored =
            json!({ "https_only": true, "retry": { "jitter": "none" }, "retention": { "events": "1d" } });
        let requested = json!({ "retry": { "waits": ["1s"] } });
        let allowed = contracts
            .allowed_overrides(DEFAULT_CONTRACT, over(Some(&stored)), Some(requested.clone()), APP)
            .unwrap();
        let merged =
            json!({ "https_only": true, "retention": { "events": "1d" }, "retry": { "waits": ["1s"] } });
        assert_eq!(allowed, Some(merged));
        let cleared = contracts.allowed_overrides(DEFAULT_CONTRACT, over(Some(&stored)), None, APP).unwrap();
        assert_eq!(cleared, Some(json!({ "https_only": true, "retention": { "events": "1d" } })));
        assert_eq!(
            contracts
                .allowed_overrides(DEFAULT_CONTRACT, over(Some(&stored)), Some(requested.clone()), ADMIN)
                .unwrap(),
            Some(requested)
        );
    }

    #[test]
    fn operator_fields_are_forbidden_to_an_app_key_and_unknown_fields_are_invalid() {
        let contracts = contracts();
        let ask = |overrides| {
            contracts.allowed_overrides(DEFAULT_CONTRACT, over(None), Some(overrides), APP).unwrap_err()
        };
        let Error::Forbidden { field, .. } = ask(json!({ "https_only": false })) else { panic!() };
        assert_eq!(field.as_deref(), Some("overrides.https_only"));
        let Error::Field(error) = ask(json!({ "retry": { "wait": [] } })) else { panic!() };
        assert_eq!(error.field, "overrides.retry.wait");
        let Error::Field(error) = ask(json!([])) else { panic!() };
        assert_eq!(error.field, "overrides");
    }

    #[test]
    fn a_portal_link_sets_customer_fields_and_keeps_what_the_app_set() {
        let contracts = contracts();
        let stored =
            json!({ "https_only": true, "timeout": "9s", "retry": { "waits": ["1s"], "jitter": "none" } });
        let kept = json!({ "https_only": true, "retry": { "waits": ["1s"], "jitter": "none" } });
        let ask =
            |requested| contracts.allowed_overrides(DEFAULT_CONTRACT, over(Some(&stored)), requested, PORTAL);
        assert_eq!(ask(None).unwrap(), Some(kept.clone()));
        let mut merged = kept;
        merged["timeout"] = json!("5s");
        assert_eq!(ask(Some(json!({ "timeout": "5s" }))).unwrap(), Some(merged));
        let Error::Forbidden { field, .. } = ask(Some(json!({ "retry": { "waits": [] } }))).unwrap_err()
        else {
            panic!()
        };
        assert_eq!(field.as_deref(), Some("overrides.retry.waits"));
    }

    #[test]
    fn equal_overrides_share_one_contract_and_unused_ones_are_forgotten() {
        let contracts = contracts();
        let resolve = |wait: u32| {
            let overrides = json!({ "retry": { "waits": [format!("{wait}s")] } });
            contracts.resolve(DEFAULT_CONTRACT, over(Some(&overrides))).unwrap()
        };
        let held = resolve(1);
        assert!(Arc::ptr_eq(&held.contract, &resolve(1).contract));
        (2..2000).for_each(|wait| drop(resolve(wait)));
        assert!(contracts.overridden.lock().unwrap().len() < 1000);
        assert!(Arc::ptr_eq(&held.contract, &resolve(1).contract));
    }

    #[test]
    fn an_app_key_can_remove_the_paired_fields_it_set() {
        let pair = json!({ "health": { "degraded_above": "50%", "degraded_window": "1h" } });
        let contracts = contracts();
        let allowed =
            contracts.allowed_overrides(DEFAULT_CONTRACT, over(None), Some(pair.clone()), APP).unwrap();
        assert_eq!(allowed.as_ref(), Some(&pair));
        assert_eq!(
            contracts.allowed_overrides(DEFAULT_CONTRACT, over(Some(&pair)), None, APP).unwrap(),
            None
        );
    }

    #[test]
    fn endpoint_overrides_apply_on_top_of_app_overrides() {
        let contracts = contracts();
        let (app, endpoint) = (json!({ "timeout": "7s", "brand": "Acme" }), json!({ "timeout": "3s" }));
        let layers = |endpoint| OverrideLayers { app: Some(&app), endpoint };
        let of_app = contracts.resolve("zerofee", layers(None)).unwrap();
        assert_eq!(of_app.contract.timeout.as_secs(), 7);
        let of_both = contracts.resolve("zerofee", layers(Some(&endpoint))).unwrap();
        assert_eq!(of_both.contract.timeout.as_secs(), 3);
        assert_eq!(of_both.contract.signature.header, "x-acme-signature");
        let swapped = OverrideLayers { app: Some(&endpoint), endpoint: Some(&app) };
        assert_eq!(contracts.resolve("zerofee", swapped).unwrap().contract.timeout.as_secs(), 7);
        let odd = json!({ "signature": { "ed25519": null } });
        let Error::Field(error) = contracts
            .resolve(DEFAULT_CONTRACT, OverrideLayers { app: Some(&odd), endpoint: None })
            .unwrap_err()
        else {
            panic!()
        };
        assert_eq!(error.field, "contract");
        assert!(
            error.message.starts_with("does not go with the app's overrides: signature.ed25519"),
            "{error}"
        );
    }

    #[test]
    fn an_unknown_contract_is_answered_with_the_nearest_name() {
        let Error::Field(error) = contracts().get("standart").unwrap_err() else { panic!() };
        assert_eq!(error.message, "there is no such contract; did you mean `standard`?");
    }
}
