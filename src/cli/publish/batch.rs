//! Publishes a file of events, one per line, in batches. Each line is sent unchanged and has its own result.

use super::one_value;
use crate::cli::{
    api_client::{ApiCall, ServerClient, path},
    exit::{CommandError, ExitStatus},
    print,
    table::{aligned, visible, visible_json},
};
use bytes::Bytes;
use http::Method;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use std::process::ExitCode;

/// The API's limit of events in a request.
const BATCH_EVENTS_MAX: usize = 1000;
/// Below the default limit of a server's request body.
const BATCH_BYTES_MAX: usize = 1_000_000;

#[derive(Deserialize)]
struct BatchAnswer {
    data: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
struct BatchItemAnswer {
    status: u16,
    problem: Option<Value>,
}

/// A line that holds an event, and its number.
type NumberedLine<'a> = (usize, &'a [u8]);

pub(super) async fn publish(
    client: &ServerClient,
    app: &str,
    file: &[u8],
    is_json: bool,
) -> anyhow::Result<ExitCode> {
    let lines = lines(file)?;
    let mut answers: Vec<Box<RawValue>> = Vec::new();
    let mut failure = None;
    for chunk in chunks(&lines) {
        let mut call = ApiCall::new(Method::POST, path("/v1/apps/{app}/events/batch", &[app])?);
        call.body = Bytes::from(envelope(chunk));
        match client.call(&call).await.and_then(|answer| answer.json::<BatchAnswer>()) {
            Ok(answer) => answers.extend(answer.data),
            Err(error) => {
                // Earlier batches have their answers, which are shown.
                let from = chunk.first().map_or(0, |(number, _)| *number);
                failure =
                    Some(error.context(format!("the events from line {from} on were not answered for")));
                break;
            }
        }
    }
    let items: Vec<BatchItemAnswer> =
        answers.iter().map(|raw| serde_json::from_str(raw.get())).collect::<Result<_, _>>()?;
    let refused: Vec<(usize, &BatchItemAnswer)> = lines
        .iter()
        .map(|(number, _)| *number)
        .zip(&items)
        .filter(|(_, item)| item.problem.is_some())
        .collect();
    print(&if is_json { as_json(&answers) } else { in_words(&items, &refused) });
    match failure {
        Some(error) => Err(error),
        None => exit(&refused),
    }
}

/// Returns every line that is not empty. All of them must be JSON before any is sent.
fn lines(file: &[u8]) -> anyhow::Result<Vec<NumberedLine<'_>>> {
    let all =
        file.split(|byte| *byte == b'\n').enumerate().map(|(index, line)| (index + 1, line.trim_ascii()));
    all.filter(|(_, line)| !line.is_empty())
        .map(|(number, line)| {
            one_value(line).map_err(|why| CommandError::usage(format!("line {number}: {why}")))?;
            Ok((number, line))
        })
        .collect()
}

/// Splits the lines into chunks that a server accepts.
fn chunks<'a, 'b>(lines: &'b [NumberedLine<'a>]) -> Vec<&'b [NumberedLine<'a>]> {
    let (mut chunks, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (index, (_, line)) in lines.iter().enumerate() {
        if index > start && (index - start == BATCH_EVENTS_MAX || bytes + line.len() > BATCH_BYTES_MAX) {
            chunks.push(&lines[start..index]);
            (start, bytes) = (index, 0);
        }
        bytes += line.len() + 1;
    }
    if start < lines.len() {
        chunks.push(&lines[start..]);
    }
    chunks
}

fn envelope(lines: &[NumberedLine<'_>]) -> Vec<u8> {
    let events: Vec<&[u8]> = lines.iter().map(|(_, line)| *line).collect();
    [b"{\"events\":[", &events.join(&b","[..])[..], b"]}"].concat()
}

fn as_json(answers: &[Box<RawValue>]) -> String {
    let items: Vec<String> = answers.iter().map(|raw| visible_json(raw.get())).collect();
    format!("{{\"data\":[{}]}}\n", items.join(","))
}

fn in_words(items: &[BatchItemAnswer], refused: &[(usize, &BatchItemAnswer)]) -> String {
    let before = items.iter().filter(|item| item.status == 200).count();
    let new = items.len() - before - refused.len();
    let rows: Vec<[String; 2]> = refused
        .iter()
        .map(|(number, item)| {
            let detail =
                item.problem.as_ref().and_then(|problem| problem["detail"].as_str()).unwrap_or_default();
            [format!("line {number}"), visible(detail)]
        })
        .collect();
    format!("{new} published, {before} published before, {} refused\n{}", refused.len(), aligned(&rows))
}

fn exit(refused: &[(usize, &BatchItemAnswer)]) -> anyhow::Result<ExitCode> {
    if refused.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let is_passing = refused.iter().all(|(_, item)| ExitStatus::of(item.status) == ExitStatus::TryAgain);
    let exit = if is_passing { ExitStatus::TryAgain } else { ExitStatus::Failed };
    Err(CommandError::with_exit(exit, format!("{} events were refused", refused.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_bytes_and_numbers_and_all_must_be_json() {
        let found = lines(b"{\"n\": 1.10}\r\n\n  [2]\n").unwrap();
        assert_eq!(found, [(1, &b"{\"n\": 1.10}"[..]), (3, b"[2]")]);
        assert_eq!(envelope(&found), b"{\"events\":[{\"n\": 1.10},[2]]}");
        let refused = lines(b"{}\n{}]},{\n").unwrap_err().to_string();
        assert!(refused.starts_with("line 2: not valid JSON"), "{refused}");
    }

    #[test]
    fn a_chunk_is_never_more_than_a_server_takes() {
        let small = vec![(1, &b"{}"[..]); 2500];
        assert_eq!(chunks(&small).iter().map(|chunk| chunk.len()).collect::<Vec<_>>(), [1000, 1000, 500]);
        let text = vec![b'1'; 400_000];
        let large = vec![(1, &text[..]); 5];
        assert_eq!(chunks(&large).iter().map(|chunk| chunk.len()).collect::<Vec<_>>(), [2, 2, 1]);
        assert!(chunks(&[]).is_empty());
        let huge = vec![b'1'; 3 * BATCH_BYTES_MAX];
        assert_eq!(
            chunks(&[(1, &huge[..]), (2, &huge[..])]).len(),
            2,
            "what is too large alone is sent alone"
        );
    }
}
