//! The contracts of a node: those that come with the binary and those in the operator's folder.

use crate::{config::Settings, domain::contract::Contract};
use anyhow::Context;

/// The built-in contracts and the operator's; one of the operator's may replace one built in.
pub fn contracts(settings: &Settings) -> anyhow::Result<Vec<Contract>> {
    let Some(folder) = &settings.contracts_dir else { return Ok(Contract::builtin()?) };
    let about = || format!("contracts_dir: {}", folder.display());
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .with_context(about)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .with_context(about)?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    let mut files = Vec::with_capacity(paths.len());
    for path in paths {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(&path).with_context(|| name.clone())?;
        files.push((name, text));
    }
    Ok(Contract::with_files(&files)?)
}
