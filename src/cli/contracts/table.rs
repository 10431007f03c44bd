//! Contracts for a terminal: all in one table, or one in full.

use super::{super::table::aligned, describe};
use crate::domain::contract::Contract;
use std::fmt::Write;

pub(super) fn all_contracts(contracts: &[Contract]) -> String {
    let mut rows = vec![["CONTRACT", "ATTEMPTS", "ENDS", "TIMELINE"].map(str::to_owned)];
    for contract in contracts {
        let timeline = contract.timeline();
        let attempts: Vec<_> = timeline.attempts.iter().map(ToString::to_string).collect();
        rows.push([
            contract.name.clone(),
            timeline.attempts.len().to_string(),
            describe::ends(contract),
            attempts.join(" "),
        ]);
    }
    let mut out = aligned(&rows);
    out.push('\n');
    for contract in contracts {
        let _ = writeln!(out, "{}: {}", contract.name, contract.description);
    }
    out.push_str("\nT is the first attempt; the receiver always fails at once. `posthaste contracts NAME` says more.\n");
    out
}

pub(super) fn one_contract(contract: &Contract) -> String {
    let origin = if contract.is_built_in() { "built in" } else { "the operator's own" };
    let mut out = format!("{}: {} ({origin}, {})\n", contract.name, contract.description, contract.hash());
    for (heading, sentences) in describe::describe(contract) {
        let _ = writeln!(out, "\n{heading}");
        for sentence in sentences {
            let _ = writeln!(out, "  {sentence}");
        }
    }
    out.push_str("\nTimeline of a delivery whose receiver always fails at once\n");
    let mut rows: Vec<[String; 2]> = Vec::new();
    let timeline = contract.timeline();
    for (index, at) in timeline.attempts.iter().enumerate() {
        let chance = if index < timeline.certain_attempts { "" } else { ", if it is not too old by then" };
        rows.push([format!("  {at}"), format!("attempt {}{chance}", index + 1)]);
    }
    for ending in &timeline.ends {
        rows.push([format!("  {}", ending.at), describe::state(contract, ending.state)]);
    }
    out + &aligned(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::contract::fixtures;

    #[test]
    fn the_table_has_a_line_for_each_contract_with_its_times() {
        let table = all_contracts(&fixtures::all());
        let line = |name: &str| table.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        let words: Vec<String> = line("zerofee").split_whitespace().map(str::to_owned).collect();
        assert_eq!(words[..2], ["zerofee", "6"]);
        assert!(line("zerofee").ends_with("T+0 T+1m T+6m T+36m T+2h36m T+10h36m"));
        assert!(line("orientedos").contains("dead at T+7h21m"));
        let columns: Vec<_> =
            table.lines().take(7).map(|line| line.find("T+0").or(line.find("TIMELINE"))).collect();
        assert!(columns.windows(2).all(|pair| pair[0].is_some()), "{table}");
    }

    #[test]
    fn one_contract_is_shown_with_its_timeline_line_by_line() {
        let text = one_contract(&fixtures::zerofee());
        assert!(text.starts_with("zerofee: Payment events of a payment orchestrator (built in, "), "{text}");
        assert!(text.contains("  T+2h36m   attempt 5\n"), "{text}");
        assert!(text.ends_with("  T+10h36m  attempt 6\n  T+10h36m  dead, called `failed`\n"), "{text}");
    }
}
