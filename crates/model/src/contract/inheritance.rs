//! Reads contracts from files. A file may be based on another contract and then gives only what differs.

use super::{BUILT_IN, Contract, ContractError, codec, field_reader::Section, fields, overrides};
use crate::field_error::{FieldError, nearest};
use serde_json::Value;

/// A parsed file before it is merged with its base.
struct ContractDraft<'a> {
    file: &'a str,
    name: String,
    based_on: Option<String>,
    document: Value,
}

impl Contract {
    /// Returns the built-in contracts and those of the files (name for messages, text). A file with the name of a
    /// built-in contract replaces it.
    ///
    /// Errors name the file, the field and the allowed values. Duplicate names, unknown bases and circular bases are
    /// errors.
    pub fn with_files(files: &[(String, String)]) -> Result<Vec<Self>, ContractError> {
        let own = read(files)?;
        let mut all = Self::builtin()?;
        all.retain(|built_in| own.iter().all(|contract| contract.name != built_in.name));
        all.extend(own);
        Ok(all)
    }

    /// Reads a single file; its base, if it has one, is a built-in contract.
    pub fn from_toml(file: &str, text: &str) -> Result<Self, ContractError> {
        let contract = read(&[(file.to_owned(), text.to_owned())])?.pop();
        contract.ok_or_else(|| syntax(file, "there is nothing in it"))
    }

    /// Whether this is exactly one of the contracts that come with the product.
    pub fn is_built_in(&self) -> bool {
        // The name is part of the hash, so no other contract can be equal.
        built_in(&self.name).is_some_and(|known| known.is_ok_and(|known| known.hash() == self.hash()))
    }
}

fn read(files: &[(String, String)]) -> Result<Vec<Contract>, ContractError> {
    let mut drafts: Vec<ContractDraft> = Vec::with_capacity(files.len());
    for (file, text) in files {
        let draft = draft(file, text)?;
        if let Some(other) = drafts.iter().find(|other| other.name == draft.name) {
            let message = format!("is also the name of the contract in {}", other.file);
            return Err(field(file, FieldError::new("name", message)));
        }
        drafts.push(draft);
    }
    drafts.iter().map(|draft| resolve(draft, &drafts, &mut Vec::new())).collect()
}

fn draft<'a>(file: &'a str, text: &str) -> Result<ContractDraft<'a>, ContractError> {
    let table: toml::Table =
        text.parse().map_err(|error: toml::de::Error| syntax(file, error.to_string().trim_end()))?;
    let document = serde_json::to_value(table).map_err(|error| syntax(file, &error.to_string()))?;
    let name_and_base = || {
        fields::for_each_field(&document, |_, _| Ok(()))?;
        let root = Section::root(&document)?;
        Ok((codec::read_name(&root)?, root.optional("based_on")?))
    };
    let (name, based_on) = name_and_base().map_err(|error| field(file, error))?;
    Ok(ContractDraft { file, name, based_on, document })
}

/// Merges the draft over its base, which is resolved first. `above` holds the chain of names that led here.
fn resolve<'a>(
    draft: &'a ContractDraft,
    drafts: &'a [ContractDraft],
    above: &mut Vec<&'a str>,
) -> Result<Contract, ContractError> {
    let refuse = |message: String| field(draft.file, FieldError::new("based_on", message));
    let read = |document: &Value| Contract::from_document(document).map_err(|error| field(draft.file, error));
    above.push(&draft.name);
    let Some(base) = draft.based_on.as_deref() else { return read(&draft.document) };
    // A file that replaces a built-in contract may be based on what it replaces.
    let in_folder = drafts.iter().find(|other| other.name == base && other.name != draft.name);
    let base = match in_folder {
        Some(other) if above.contains(&other.name.as_str()) => {
            return Err(refuse(format!("goes in a circle: {}, {base}", above.join(", "))));
        }
        Some(other) => resolve(other, drafts, above)?,
        None => built_in(base).unwrap_or_else(|| Err(refuse(unknown_base(base, drafts, &draft.name))))?,
    };
    let mut document = codec::write(&base);
    overrides::merge_overrides(&mut document, &empty_to_null(&draft.document));
    read(&document)
}

/// Turns empty texts into null, which removes an optional field of the base: TOML has no null.
fn empty_to_null(document: &Value) -> Value {
    match document {
        Value::String(text) if text.is_empty() => Value::Null,
        Value::Object(members) => {
            Value::Object(members.iter().map(|(name, value)| (name.clone(), empty_to_null(value))).collect())
        }
        other => other.clone(),
    }
}

fn built_in(name: &str) -> Option<Result<Contract, ContractError>> {
    let (file, text) = BUILT_IN.iter().find(|(file, _)| built_in_name(file) == name)?;
    Some(Contract::from_toml(file, text))
}

fn built_in_name(file: &'static str) -> &'static str {
    file.rsplit('/').next().and_then(|name| name.strip_suffix(".toml")).unwrap_or(file)
}

fn unknown_base(base: &str, drafts: &[ContractDraft], own: &str) -> String {
    let others = drafts.iter().map(|draft| draft.name.as_str()).filter(|name| *name != own);
    let mut known: Vec<&str> = BUILT_IN.iter().map(|(file, _)| built_in_name(file)).chain(others).collect();
    known.sort_unstable();
    known.dedup();
    match nearest(base, &known) {
        Some(near) => format!("there is no contract `{base}`; did you mean `{near}`?"),
        None => format!("there is no contract `{base}`; there are {}", known.join(", ")),
    }
}

fn field(file: &str, source: FieldError) -> ContractError {
    ContractError::Field { file: file.to_owned(), source }
}

fn syntax(file: &str, message: &str) -> ContractError {
    ContractError::Syntax { file: file.to_owned(), message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{RetryRule, fixtures};

    fn files(files: &[(&str, &str)]) -> Result<Vec<Contract>, String> {
        let owned: Vec<_> =
            files.iter().map(|(file, text)| ((*file).to_owned(), (*text).to_owned())).collect();
        Contract::with_files(&owned).map_err(|error| error.to_string())
    }

    fn named(all: &[Contract], name: &str) -> Contract {
        all.iter().find(|contract| contract.name == name).unwrap().clone()
    }

    #[test]
    fn a_file_gives_only_what_differs_from_its_base() {
        let acme = "name = \"acme\"\nbased_on = \"orientedos\"\nbrand = \"Acme\"\n[retry]\nfinal_wait = \"\"\n[headers]\n\"X-{brand}-Event\" = \"\"\nx-more = \"1\"";
        let gold = "name = \"gold\"\nbased_on = \"acme\"\ntimeout = \"9s\"";
        // The base may stand in a later file.
        let all = files(&[("1.toml", gold), ("2.toml", acme)]).unwrap();
        assert_eq!(all.len(), 8);
        let (acme, gold, base) = (named(&all, "acme"), named(&all, "gold"), fixtures::orientedos());
        assert_eq!(acme.retry, RetryRule { final_wait: None, ..base.retry.clone() });
        assert_eq!(
            acme.headers.keys().collect::<Vec<_>>(),
            ["x-acme-delivery-id", "x-more"],
            "one taken away, one added, one renamed"
        );
        assert_eq!((acme.timeout, &acme.states), (base.timeout, &base.states));
        assert_eq!((gold.timeout.as_secs(), &gold.brand), (9, &acme.brand));
        assert!(!acme.is_built_in() && named(&all, "zerofee").is_built_in());
    }

    #[test]
    fn a_file_with_a_built_in_name_replaces_it_and_may_be_based_on_it() {
        let own = "name = \"zerofee\"\nbased_on = \"zerofee\"\nbrand = \"Own\"";
        let all =
            files(&[("zerofee.toml", own), ("b.toml", "name = \"b\"\nbased_on = \"zerofee\"")]).unwrap();
        assert_eq!(all.len(), 7);
        let replaced = named(&all, "zerofee");
        assert_eq!(replaced.signature.header, "x-own-signature");
        assert!(!replaced.is_built_in());
        assert_eq!(named(&all, "b").brand, "Own", "the base is the file, not what it replaced");
    }

    #[test]
    fn an_invalid_base_is_rejected_with_file_field_and_allowed_values() {
        let refusal = |texts: &[(&str, &str)]| files(texts).unwrap_err();
        let base = |base: &str| format!("name = \"a\"\nbased_on = {base}");
        assert_eq!(
            refusal(&[("a.toml", &base("\"zerofe\""))]),
            "a.toml: based_on: there is no contract `zerofe`; did you mean `zerofee`?"
        );
        assert_eq!(
            refusal(&[("a.toml", &base("\"qqq\""))]),
            "a.toml: based_on: there is no contract `qqq`; there are bastionary, orientedos, sendnomi, simpaisa, standard, zerofee"
        );
        assert!(
            refusal(&[("a.toml", &base("\"a\""))]).starts_with("a.toml: based_on: there is no contract `a`")
        );
        assert!(refusal(&[("a.toml", &base("7"))]).starts_with("a.toml: based_on: must be"));
        assert_eq!(
            refusal(&[
                ("a.toml", &base("\"b\"")),
                ("b.toml", "name = \"b\"\nbased_on = \"c\""),
                ("c.toml", "name = \"c\"\nbased_on = \"a\""),
            ]),
            "c.toml: based_on: goes in a circle: a, b, c, a"
        );
        assert_eq!(
            refusal(&[("a.toml", &base("\"zerofee\"")), ("b.toml", &base("\"zerofee\""))]),
            "b.toml: name: is also the name of the contract in a.toml"
        );
        assert!(refusal(&[("a.toml", "based_on = \"zerofee\"")]).starts_with("a.toml: name: is missing"));
        let wrong = format!("{}\n[retry]\njitter = \"often\"", base("\"zerofee\""));
        assert!(refusal(&[("a.toml", &wrong)]).starts_with("a.toml: retry.jitter: must be \"none\""));
        let broken = "name = \"b\"\nbased_on = \"zerofee\"\ntimeout = \"2m\"";
        assert_eq!(
            refusal(&[("a.toml", &base("\"b\"")), ("b.toml", broken)]),
            "b.toml: timeout: must be from 10ms to 1m",
            "the error names the file that contains it"
        );
    }
}
