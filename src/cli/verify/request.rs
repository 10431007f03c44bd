//! Reads a received request from files and flags: headers in the formats in which tools print them, the body byte for
//! byte.

use anyhow::{Context, bail};
use serde_json::Value;
use std::{
    fs,
    io::{self, Read},
    path::Path,
};

/// No useful request is larger.
const REQUEST_BYTES_MAX: u64 = 64 * 1024 * 1024;

pub(super) fn headers(file: Option<&Path>, given: &[String]) -> anyhow::Result<Vec<(String, String)>> {
    let mut headers = Vec::new();
    if let Some(path) = file {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        headers = read(&text).with_context(|| path.display().to_string())?;
    }
    for header in given {
        let form = || format!("{header:?}: give a header as NAME: VALUE");
        headers.push(line(header).with_context(form)?);
    }
    Ok(headers)
}

pub(super) fn body(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut body = Vec::new();
    if path == Path::new("-") {
        io::stdin().lock().take(REQUEST_BYTES_MAX).read_to_end(&mut body).context("standard input")?;
    } else {
        let about = || path.display().to_string();
        fs::File::open(path)
            .with_context(about)?
            .take(REQUEST_BYTES_MAX)
            .read_to_end(&mut body)
            .with_context(about)?;
    }
    Ok(body)
}

fn read(text: &str) -> anyhow::Result<Vec<(String, String)>> {
    if text.trim_start().starts_with('{') {
        let Value::Object(object) = serde_json::from_str(text).context("is no JSON object of headers")?
        else {
            bail!("is no JSON object of headers");
        };
        let mut headers = Vec::new();
        for (name, value) in object {
            match value {
                Value::String(value) => headers.push((name, value)),
                Value::Array(values) => {
                    headers.extend(
                        values.iter().filter_map(|value| Some((name.clone(), value.as_str()?.to_owned()))),
                    );
                }
                _ => bail!("{name}: must be a text"),
            }
        }
        return Ok(headers);
    }
    let mut headers = Vec::new();
    for (number, text) in text.lines().enumerate() {
        // curl marks the lines that it sends and receives.
        let text = text.trim_start_matches(['>', '<']).trim();
        let is_start_line = number == 0 && (text.contains(" HTTP/") || text.starts_with("HTTP/"));
        if text.is_empty() || is_start_line {
            continue;
        }
        headers.push(line(text).with_context(|| format!("line {}: {text:?} is no header", number + 1))?);
    }
    Ok(headers)
}

fn line(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once(':')?;
    let name = name.trim();
    let is_name = !name.is_empty() && !name.contains(char::is_whitespace);
    is_name.then(|| (name.to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_tools_print_them() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let expected = [pair("Webhook-Id", "a:b"), pair("x", "")];
        assert_eq!(read("POST /hook HTTP/1.1\r\nWebhook-Id: a:b\r\nx:\r\n\r\n").unwrap(), expected);
        assert_eq!(read("> POST / HTTP/1.1\n> Webhook-Id:  a:b \n> x:\n>").unwrap(), expected);
        assert_eq!(read(r#"{"Webhook-Id":["a:b"],"x":""}"#).unwrap(), expected);
        let refused = read("a: 1\nnonsense").unwrap_err().to_string();
        assert!(refused.contains("line 2"), "{refused}");
        assert!(read(r#"{"a":1}"#).is_err() && headers(None, &["x".into()]).is_err());
    }
}
