//! The contracts of the simulation: `standard` and variations that stress one promise each.

use posthaste::domain::contract::Contract;
use serde_json::{Value, json};
use std::sync::OnceLock;

/// Every contract that an endpoint of the simulation may have; read once for all seeds.
pub(crate) fn all() -> &'static [Contract] {
    static ALL: OnceLock<Vec<Contract>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut standard: Value = serde_json::from_str(&Contract::builtin().unwrap()[0].to_json()).unwrap();
        // Here age runs on while a delivery is held, so that the checker needs no record of holds; that it stops otherwise
        // is a property of `Delivery`, tested in place.
        standard["retry"]["give_up_while_held"] = true.into();
        let mut all = vec![Contract::from_json(&standard.to_string()).unwrap()];
        for (name, changes) in variations() {
            let mut document = standard.clone();
            document["name"] = name.into();
            merge(&mut document, &changes);
            all.push(Contract::from_json(&document.to_string()).unwrap());
        }
        all
    })
}

pub(crate) fn named(name: &str) -> &'static Contract {
    all().iter().find(|contract| contract.name == name).unwrap()
}

fn variations() -> [(&'static str, Value); 5] {
    [
        (
            "strict",
            json!({
                "pacing": "strict", "timeout": "10s",
                "retry": { "waits": ["1m", "5m", "30m", "2h", "8h"], "jitter": "none", "give_up_after": null, "retry_after": "ignore" },
                "answers": { "switch_off": [], "never": ["404"] },
                "health": { "off_after_failed_events": 2, "off_reason": "too_often" },
                "notices": { "dead_letter": "each", "dead_letter_by": "list" },
            }),
        ),
        (
            "patient-end",
            json!({
                "pacing": "strict",
                "retry": { "waits": ["10s", "1m"], "jitter": "none", "final_wait": "6h", "give_up_after": null },
                "off": { "waiting": "cancelled", "published": "cancelled" },
            }),
        ),
        (
            "gives-up",
            json!({
                "retry": { "waits": ["30s", "5m", "20m", "1h", "3h", "12h"], "jitter": "20%", "give_up_after": "2h" },
                "off": { "waiting": "held", "published": "none" },
                "health": { "off_after_failing_for": "1d", "warning_after": "12h" },
            }),
        ),
        (
            "spread",
            json!({ "retry": { "waits": ["10s", "2m", "10m"], "jitter": "full", "give_up_after": "7d" } }),
        ),
        (
            "quick",
            json!({
                "timeout": "2s",
                "retry": { "waits": ["100ms", "1s", "5s", "60s"], "jitter": "none", "give_up_after": "1d" },
                "answers": { "never": ["4xx"], "switch_off": ["410"] },
                "health": { "off_after_failing_for": "90m", "warning_after": "30m" },
            }),
        ),
    ]
}

fn merge(document: &mut Value, changes: &Value) {
    match (document, changes) {
        (Value::Object(members), Value::Object(changes)) => {
            for (name, value) in changes {
                merge(members.entry(name).or_insert(Value::Null), value);
            }
        }
        (document, value) => *document = value.clone(),
    }
}
