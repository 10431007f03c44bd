//! Lists, page by page as they come: a table for people, one JSON document for programs.

use crate::cli::{
    api_client::{ApiCall, ServerClient},
    print, render,
    table::{TextTable, visible, visible_json},
    terminal, write_stdout,
};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use std::process::ExitCode;

/// The API's largest page.
const PAGE_MAX: u64 = 250;

#[derive(Deserialize)]
struct ListPage {
    data: Vec<Box<RawValue>>,
    next_cursor: Option<String>,
}

/// Prints at most `rows_max` rows of a list of `what`. A page may come back short although there is more, so it fetches
/// pages until there are enough rows or no more pages.
pub(super) async fn print_list(
    client: &ServerClient,
    mut call: ApiCall,
    what: &str,
    rows_max: Option<u64>,
    is_json: bool,
) -> anyhow::Result<ExitCode> {
    let mut shown = if is_json { ListOutput::Json { is_first: true } } else { ListOutput::table(what) };
    let mut left = rows_max;
    let filters = call.query.clone();
    let cursor = loop {
        let wanted = left.unwrap_or(PAGE_MAX).min(PAGE_MAX);
        call.query.push(("limit".into(), wanted.to_string()));
        let page: ListPage = client.call(&call).await?.json()?;
        left = left.map(|left| left.saturating_sub(page.data.len() as u64));
        if write_stdout(&shown.rows(&page.data)?).is_err() {
            // The reader closed the output: it has seen enough.
            return Ok(ExitCode::FAILURE);
        }
        let Some(next) = page.next_cursor.clone().filter(|_| left != Some(0)) else { break page.next_cursor };
        call.query.clone_from(&filters);
        call.query.retain(|(name, _)| name != "cursor");
        call.query.push(("cursor".into(), next));
    };
    shown.end(what, cursor.as_deref())
}

enum ListOutput {
    Json { is_first: bool },
    Table { table: TextTable, wanted: Option<&'static [&'static str]>, columns: Vec<String> },
}

impl ListOutput {
    fn table(what: &str) -> Self {
        let (table, wanted) = (TextTable::within(terminal::columns()), render::columns_of(what));
        Self::Table { table, wanted, columns: Vec::new() }
    }

    fn rows(&mut self, data: &[Box<RawValue>]) -> anyhow::Result<String> {
        match self {
            Self::Json { is_first } => {
                let mut out = String::new();
                for row in data {
                    out.push_str(if std::mem::take(is_first) { "{\"data\":[" } else { "," });
                    out.push_str(&visible_json(row.get()));
                }
                Ok(out)
            }
            Self::Table { table, wanted, columns } => {
                let rows: Vec<Value> =
                    data.iter().map(|row| serde_json::from_str(row.get())).collect::<Result<_, _>>()?;
                let is_first = columns.is_empty();
                if is_first {
                    *columns = render::columns(*wanted, &rows);
                }
                let mut lines: Vec<Vec<String>> = Vec::new();
                if is_first && !rows.is_empty() {
                    lines.push(columns.iter().map(|column| render::title(column)).collect());
                }
                lines.extend(rows.iter().map(|row| render::cells(columns, row)));
                Ok(table.lines(&lines))
            }
        }
    }

    fn end(self, what: &str, cursor: Option<&str>) -> anyhow::Result<ExitCode> {
        match self {
            Self::Json { is_first } => {
                let opening = if is_first { "{\"data\":[" } else { "" };
                let cursor = visible_json(&serde_json::to_string(&cursor)?);
                let text = format!("{opening}],\"next_cursor\":{cursor}}}\n");
                Ok(print(&text))
            }
            Self::Table { columns, .. } => {
                if columns.is_empty() {
                    eprintln!("no {what}");
                }
                if let Some(cursor) = cursor {
                    eprintln!("there is more: --all, or --cursor {}", visible(cursor));
                }
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}
