//! Variables in the texts of a target's description: `{{name}}` stands for the variable's value.

use anyhow::{Result, bail};
use std::collections::BTreeMap;

pub type Variables = BTreeMap<String, String>;

/// Replaces each `{{name}}`. Fails on a name that is not set, so that a forgotten variable is noticed before any request.
pub fn fill(text: &str, variables: &Variables) -> Result<String> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((name, after)) = after.split_once("}}") else { bail!("no }}}} after {{{{ in {text}") };
        let Some(value) = variables.get(name) else {
            bail!("the variable {name} is not set; give --var {name}=VALUE");
        };
        filled.push_str(before);
        filled.push_str(value);
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables() -> Variables {
        Variables::from([("base".into(), "http://127.0.0.1:1".into()), ("app".into(), "{{base}}".into())])
    }

    #[test]
    fn each_name_is_replaced_by_its_value_once() {
        assert_eq!(fill("{{base}}/v1/{{app}}!", &variables()).unwrap(), "http://127.0.0.1:1/v1/{{base}}!");
        assert_eq!(fill("{\"a\":{}}", &variables()).unwrap(), "{\"a\":{}}");
    }

    #[test]
    fn an_unknown_or_unfinished_name_is_refused() {
        assert!(fill("{{token}}", &variables()).unwrap_err().to_string().contains("--var token=VALUE"));
        assert!(fill("{{base", &variables()).is_err());
    }
}
