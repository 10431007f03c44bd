//! The contracts by name, and every endpoint's contract with its overrides, made once and shared.

use super::{Caller, Error};
use crate::domain::{
    contract::{Contract, ContractHash, Setter},
    field::{FieldError, nearest},
    key::Scope,
};
use serde_json::{Map, Value};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError, Weak},
};

pub(super) const DEFAULT: &str = "standard";

/// A contract as an endpoint uses it.
#[derive(Clone, Debug)]
pub(super) struct Resolved {
    pub contract: Arc<Contract>,
    pub hash: ContractHash,
}

/// Names a resolved contract by where it came from: the contract's name and the overrides as text.
type Origin = (String, String);

#[derive(Debug)]
pub(super) struct Contracts {
    by_name: BTreeMap<String, Resolved>,
    /// Endpoints with the same overrides share one value, for as long as any of them has it.
    overridden: Mutex<HashMap<Origin, (Weak<Contract>, ContractHash)>>,
}

impl Contracts {
    /// Of two contracts with one name the last counts.
    pub(super) fn new(contracts: Vec<Contract>) -> Self {
        let resolved = |contract: Contract| {
            let hash = contract.hash();
            (contract.name.clone(), Resolved { contract: Arc::new(contract), hash })
        };
        Self { by_name: contracts.into_iter().map(resolved).collect(), overridden: Mutex::default() }
    }

    pub(super) fn named(&self, name: &str) -> Result<&Resolved, Error> {
        self.by_name.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.by_name.keys().map(String::as_str).collect();
            let hint = match nearest(name, &known) {
                Some(near) => format!("there is no such contract; did you mean `{near}`?"),
                None => format!("there is no such contract; known: {}", known.join(", ")),
            };
            Error::field("contract", hint)
        })
    }

    /// Overrides that are stored were checked when they were set.
    pub(super) fn resolve(&self, name: &str, overrides: Option<&Value>) -> Result<Resolved, Error> {
        let named = self.named(name)?;
        let Some(overrides) = overrides else { return Ok(named.clone()) };
        let origin = (name.to_owned(), overrides.to_string());
        let mut known = self.overridden.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((contract, hash)) = known.get(&origin)
            && let Some(contract) = contract.upgrade()
        {
            return Ok(Resolved { contract, hash: *hash });
        }
        let contract = named.contract.with_overrides(overrides, Setter::Operator).map_err(in_overrides)?;
        let hash = contract.hash();
        let contract = Arc::new(contract);
        if known.len() == known.capacity() {
            known.retain(|_, (contract, _)| contract.strong_count() > 0);
        }
        known.insert(origin, (Arc::downgrade(&contract), hash));
        Ok(Resolved { contract, hash })
    }

    /// The overrides to store when `caller` asks for these: an app key leaves alone what only the operator may set.
    pub(super) fn allowed_overrides(
        &self,
        name: &str,
        stored: Option<&Value>,
        asked: Option<Value>,
        caller: Caller,
    ) -> Result<Option<Value>, Error> {
        let base = &self.named(name)?.contract;
        let setter = match caller.scope {
            Scope::Admin => Setter::Operator,
            Scope::App(_) | Scope::Publish(_) | Scope::Read(_) => Setter::App,
        };
        if let Some(asked) = &asked
            && let Err(error) = base.with_overrides(asked, setter)
        {
            let error = in_overrides(error);
            return Err(match base.with_overrides(asked, Setter::Operator) {
                Ok(_) => Error::Forbidden { detail: error.to_string(), field: Some(error.field) },
                Err(_) => error.into(),
            });
        }
        if setter == Setter::Operator {
            return Ok(asked);
        }
        let mut kept = stored.map(|stored| of_the_operator(base, stored)).unwrap_or_default();
        for (path, value) in asked.iter().flat_map(leaves) {
            put(&mut kept, &path, value);
        }
        Ok(if kept.is_empty() { asked } else { Some(Value::Object(kept)) })
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

/// What in the stored overrides only the operator may have set.
fn of_the_operator(base: &Contract, stored: &Value) -> Map<String, Value> {
    let mut kept = Map::new();
    for (path, value) in leaves(stored) {
        let mut alone = Map::new();
        put(&mut alone, &path, value);
        if base.with_overrides(&Value::Object(alone), Setter::App).is_err() {
            put(&mut kept, &path, value);
        }
    }
    kept
}

/// Every field that overrides set, by section and name; a field outside a section has no second name.
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

fn put(into: &mut Map<String, Value>, (name, inner): &(&str, Option<&str>), value: &Value) {
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

    fn contracts() -> Contracts {
        Contracts::new(Contract::builtin().unwrap())
    }

    #[test]
    fn an_app_key_can_neither_set_nor_take_away_what_is_the_operators() {
        let contracts = contracts();
        let stored =
            json!({ "https_only": true, "retry": { "jitter": "none" }, "retention": { "events": "1d" } });
        let asked = json!({ "retry": { "waits": ["1s"] } });
        let allowed = contracts.allowed_overrides(DEFAULT, Some(&stored), Some(asked.clone()), APP).unwrap();
        let merged =
            json!({ "https_only": true, "retention": { "events": "1d" }, "retry": { "waits": ["1s"] } });
        assert_eq!(allowed, Some(merged));
        let cleared = contracts.allowed_overrides(DEFAULT, Some(&stored), None, APP).unwrap();
        assert_eq!(cleared, Some(json!({ "https_only": true, "retention": { "events": "1d" } })));
        assert_eq!(
            contracts.allowed_overrides(DEFAULT, Some(&stored), Some(asked.clone()), ADMIN).unwrap(),
            Some(asked)
        );
    }

    #[test]
    fn an_app_key_that_asks_for_the_operators_fields_is_forbidden_and_nonsense_is_invalid() {
        let contracts = contracts();
        let ask = |overrides| contracts.allowed_overrides(DEFAULT, None, Some(overrides), APP).unwrap_err();
        let Error::Forbidden { field, .. } = ask(json!({ "https_only": false })) else { panic!() };
        assert_eq!(field.as_deref(), Some("overrides.https_only"));
        let Error::Field(error) = ask(json!({ "retry": { "wait": [] } })) else { panic!() };
        assert_eq!(error.field, "overrides.retry.wait");
        let Error::Field(error) = ask(json!([])) else { panic!() };
        assert_eq!(error.field, "overrides");
    }

    #[test]
    fn equal_overrides_share_one_contract_and_unused_ones_are_forgotten() {
        let contracts = contracts();
        let resolve = |wait: u32| {
            contracts.resolve(DEFAULT, Some(&json!({ "retry": { "waits": [format!("{wait}s")] } }))).unwrap()
        };
        let held = resolve(1);
        assert!(Arc::ptr_eq(&held.contract, &resolve(1).contract));
        (2..2000).for_each(|wait| drop(resolve(wait)));
        assert!(contracts.overridden.lock().unwrap().len() < 1000);
        assert!(Arc::ptr_eq(&held.contract, &resolve(1).contract));
    }

    #[test]
    fn an_unknown_contract_is_answered_with_the_nearest_name() {
        let Error::Field(error) = contracts().named("standart").unwrap_err() else { panic!() };
        assert_eq!(error.message, "there is no such contract; did you mean `standard`?");
    }
}
