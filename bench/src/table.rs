//! The tables on standard output, in Markdown, so that they can be pasted into a page.

use crate::{
    report::Summary,
    retention::Stretch,
    statistics::{median, round},
};
use std::fmt::Write;

const COLUMNS: &[&str] = &[
    "shape",
    "CPU: delivery ÷ bare request",
    "deliveries per CPU-s",
    "of that the database",
    "delivered/s",
    "send to receive p50 / p99 / p99.9 ms",
    "lost",
    "duplicates",
    "MiB: start / peak",
    "store bytes per event",
    "disturbed runs",
    "notes",
];

pub fn of_shapes(summaries: &[Summary]) -> String {
    render(COLUMNS, summaries.iter().map(row))
}

fn row(summary: &Summary) -> Vec<String> {
    let share = |share: f64| format!("{:.0} %", share * 100.0);
    vec![
        summary.shape.clone(),
        number(summary.cpu_ratio, 2),
        number(summary.deliveries_per_cpu_s, 0),
        summary.database_share.map_or_else(|| "–".to_owned(), share),
        number(Some(summary.delivered_per_s), 0),
        [summary.p50_ms, summary.p99_ms, summary.p999_ms].map(|ms| number(Some(ms), 1)).join(" / "),
        summary.lost.to_string(),
        summary.duplicates.to_string(),
        format!("{} / {}", number(summary.resident_at_start_mib, 0), number(summary.peak_mib, 0)),
        number(summary.store_bytes_per_event, 0),
        format!("{} of {}", summary.disturbed_runs, summary.runs),
        summary.notes.join("; "),
    ]
}

pub fn of_nodes(rates: &[(usize, f64)]) -> String {
    let of = |count| rates.iter().filter(move |(nodes, _)| *nodes == count).map(|(_, rate)| *rate);
    let cells = |count: usize| {
        vec![count.to_string(), of(count).map(|rate| number(Some(rate), 0)).collect::<Vec<_>>().join(", ")]
    };
    let ratio = number(nodes_ratio(rates), 2);
    format!(
        "{}\nTwo nodes deliver {ratio} times as much as one (medians).\n",
        render(&["nodes", "delivered/s"], [1, 2].map(cells))
    )
}

/// How many times as much two nodes deliver as one.
pub fn nodes_ratio(rates: &[(usize, f64)]) -> Option<f64> {
    let of = |count| median(rates.iter().filter(|(nodes, _)| *nodes == count).map(|(_, rate)| *rate));
    Some(round(of(2)? / of(1)?))
}

pub fn of_retention(stretches: &[Stretch]) -> String {
    let columns = ["kept for", "deliveries per CPU-s", "delivered/s", "removed/s", "store MiB at the end"];
    let cells = |stretch: &Stretch| {
        let figures =
            [stretch.deliveries_per_cpu_s, stretch.delivered_per_s, stretch.removed_per_s, stretch.store_mib];
        [vec![stretch.kept_for.clone()], figures.map(|figure| number(Some(figure), 0)).to_vec()].concat()
    };
    render(&columns, stretches.iter().map(cells))
}

pub fn render(columns: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut text = format!("| {} |\n|{}\n", columns.join(" | "), "---|".repeat(columns.len()));
    for cells in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

/// With commas between thousands; a dash where there is none.
pub fn number(value: Option<f64>, digits: usize) -> String {
    let Some(value) = value else { return "–".to_owned() };
    let text = format!("{value:.digits$}");
    let (whole, fraction) =
        text.split_once('.').map_or((text.as_str(), None), |(whole, rest)| (whole, Some(rest)));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    fraction.map_or_else(|| grouped.clone(), |fraction| format!("{grouped}.{fraction}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_commas_and_their_digits() {
        assert_eq!(number(Some(1_234_567.0), 0), "1,234,567");
        assert_eq!(number(Some(1234.56), 1), "1,234.6");
        assert_eq!((number(Some(0.5), 2).as_str(), number(None, 2).as_str()), ("0.50", "–"));
    }

    #[test]
    fn every_row_has_a_cell_for_each_column() {
        let table = of_shapes(&[Summary { shape: "one-32".into(), ..Summary::default() }]);
        let bars: Vec<usize> = table.lines().map(|line| line.matches('|').count()).collect();
        assert_eq!(bars, vec![COLUMNS.len() + 1; 3]);
    }

    #[test]
    fn two_nodes_are_compared_by_medians() {
        let rates = [(1, 700.0), (2, 1400.0), (1, 710.0), (2, 1500.0), (1, 100.0), (2, 1450.0)];
        assert_eq!(nodes_ratio(&rates), Some(2.071));
        assert_eq!(nodes_ratio(&rates[..1]), None);
        assert!(of_nodes(&rates).contains("| 1 | 700, 710, 100 |"));
    }
}
