//! Writes `docs/contracts.md` from the built-in contracts. A test fails when the checked-in file differs.

use super::{describe, sample};
use crate::domain::contract::{CONTRACT_FIELDS, Contract, OverrideLevel};
use std::fmt::Write;

const INTRODUCTION: &str = "\
# Contracts

<!-- Made by `cargo run -- contracts-doc > docs/contracts.md`; change `contracts/*.toml` instead. -->

A contract is everything a sender promises its receivers: bytes, headers, signatures, times, the meaning of answers, names.
It is data. These come with the binary; an app or an endpoint picks one by name (`contract`), `standard` otherwise.
`GET /v1/contracts` and `posthaste contracts` show the same, your own contracts included.

T is the first attempt; the times are those of a receiver that always fails at once.
";

const CUSTOM_CONTRACTS: &str = "
## Your own

The setting `contracts_dir` names a folder of TOML files, one contract each; `contracts/standard.toml` in the source shows
every section. A file may be based on another contract, built in or in the folder, and then gives only what differs:

```toml
# acme.toml: ZeroFee's bytes and times under Acme's name
name = \"acme\"
based_on = \"zerofee\"
brand = \"Acme\"          # X-Acme-Signature, X-Acme-Event, …

[retry]
waits = [\"1m\", \"10m\"]   # lists are replaced whole

[headers]
\"X-{brand}-Timestamp\" = \"\"   # an empty text takes an optional field or a header away
```

`{brand}` may stand in the user agent, in names and values of headers, and in the signature's header. A file with the name
of a built-in contract replaces it, and may be based on it. A wrong file keeps the server from starting and is refused with
the file, the field and what is allowed.

## Overrides

`overrides` of an app (admin key) lie over the contract of each of its endpoints, `overrides` of an endpoint over those:
`{\"retry\": {\"waits\": [\"100ms\", \"1m\"], \"jitter\": \"none\"}, \"timeout\": \"5s\"}`. Lists are replaced whole; null takes an
optional field or a header away. Attempts are kept with the contract they were made under.

Who may set what, at least (the operator may set everything that an app key may, and an app key what the portal may):

| field | by | allowed |
|---|---|---|
";

/// Renders the whole page. Fails only if the product was built with a broken contract.
pub(in crate::cli) fn markdown() -> anyhow::Result<String> {
    let contracts = Contract::builtin()?;
    let mut page = INTRODUCTION.to_owned();
    page.push_str("\n| contract | for | attempts | timeline | ends |\n|---|---|---|---|---|\n");
    for contract in &contracts {
        let name = &contract.name;
        let attempts: Vec<_> = contract.timeline().attempts.iter().map(ToString::to_string).collect();
        let _ = writeln!(
            page,
            "| [`{name}`](#{name}) | {} | {} | {} | {} |",
            contract.description,
            attempts.len(),
            attempts.join(", "),
            describe::ends(contract)
        );
    }
    for contract in &contracts {
        add_contract(&mut page, contract);
    }
    page.push_str(CUSTOM_CONTRACTS);
    for rule in CONTRACT_FIELDS {
        let setter = rule.least_level.map_or("nobody: choose another contract", OverrideLevel::name);
        let _ = writeln!(page, "| `{}` | {setter} | {} |", rule.path, rule.allowed);
    }
    Ok(page)
}

fn add_contract(page: &mut String, contract: &Contract) {
    let _ = writeln!(page, "\n## {}\n\n{}.\n", contract.name, contract.description);
    for (heading, sentences) in describe::describe(contract) {
        let _ = writeln!(page, "- **{heading}.** {}", sentences.join(" "));
    }
    if let Some(sample) = sample::sample_request(contract) {
        let _ = writeln!(page, "\nThe first attempt, with the secret `{}`:\n\n```", sample.secret);
        for (name, value) in &sample.headers {
            let _ = writeln!(page, "{name}: {value}");
        }
        let _ = writeln!(page, "\n{}\n```", sample.body);
    }
    page.push_str("\n| attempt | at |\n|---|---|\n");
    let timeline = contract.timeline();
    for (index, at) in timeline.attempts.iter().enumerate() {
        let _ = writeln!(page, "| {} | {at} |", index + 1);
    }
    for ending in &timeline.ends {
        let _ = writeln!(page, "| {} | {} |", describe::state(contract, ending.state), ending.at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checked_in_page_is_the_one_the_contracts_make() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/contracts.md");
        let checked_in = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            checked_in == markdown().unwrap(),
            "run `cargo run -- contracts-doc > docs/contracts.md` and read the difference"
        );
    }

    #[test]
    fn every_contract_has_a_sample_and_the_documented_custom_contract_works() {
        for contract in Contract::builtin().unwrap() {
            assert!(sample::sample_request(&contract).is_some(), "{}", contract.name);
        }
        let start = CUSTOM_CONTRACTS.find("```toml\n").unwrap() + "```toml\n".len();
        let text = CUSTOM_CONTRACTS[start..].split("```").next().unwrap();
        let acme = Contract::from_toml("acme.toml", text).unwrap();
        assert_eq!(acme.signature.header, "x-acme-signature");
        assert_eq!(acme.headers.keys().collect::<Vec<_>>(), ["x-acme-delivery", "x-acme-event"]);
    }
}
