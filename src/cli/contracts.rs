//! `posthaste contracts`: the contracts that `serve` would know, readable, without a server.

mod describe;
mod markdown_page;
mod sample;
mod table;

pub(super) use markdown_page::markdown;

use super::exit::CommandError;
use crate::{
    api, app,
    config::{self, DefaultsMode, SETTINGS, SettingValues},
    domain::{contract::Contract, field_error::nearest},
};
use clap::{Args, builder::NonEmptyStringValueParser};
use serde_json::{Value, json};
use std::process::ExitCode;

#[derive(Debug, Args)]
pub(super) struct ContractsCommand {
    /// Only this one, in full
    name: Option<String>,
    /// As JSON, as the API answers it
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    known: KnownContracts,
}

/// Where contracts come from, for commands that need no server.
#[derive(Debug, Args)]
pub(super) struct KnownContracts {
    /// The file of settings that `serve` has [variable: POSTHASTE_CONFIG]
    #[arg(long, value_name = "FILE", value_parser = NonEmptyStringValueParser::new())]
    config: Option<String>,
    /// A folder of contracts of your own [variable: POSTHASTE_CONTRACTS_DIR]
    #[arg(long, value_name = "FOLDER")]
    contracts_dir: Option<String>,
}

impl ContractsCommand {
    pub(super) fn run(self) -> ExitCode {
        match self.text() {
            Ok(text) => super::print(&text),
            Err(error) => {
                eprintln!("posthaste: {error:#}");
                super::ExitStatus::Usage.into()
            }
        }
    }

    fn text(self) -> anyhow::Result<String> {
        let contracts = self.known.load()?;
        Ok(match self.name {
            Some(name) => {
                let contract = find_contract(&contracts, &name)?;
                if self.json { pretty(&api::contract_json(contract)) } else { table::one_contract(contract) }
            }
            None if self.json => {
                pretty(&json!({ "data": contracts.iter().map(api::contract_json).collect::<Vec<_>>() }))
            }
            None => table::all_contracts(&contracts),
        })
    }
}

impl KnownContracts {
    /// Loads all contracts that `serve` would know.
    pub(super) fn load(self) -> anyhow::Result<Vec<Contract>> {
        let folder = SETTINGS.iter().find(|key| key.name == "contracts_dir").zip(self.contracts_dir);
        let flags =
            SettingValues { config_file: self.config.map(Into::into), values: folder.into_iter().collect() };
        app::contracts(&config::load(DefaultsMode::Serve, flags)?)
    }
}

pub(super) fn find_contract<'a>(contracts: &'a [Contract], name: &str) -> anyhow::Result<&'a Contract> {
    if let Some(contract) = contracts.iter().find(|contract| contract.name == name) {
        return Ok(contract);
    }
    let known: Vec<&str> = contracts.iter().map(|contract| contract.name.as_str()).collect();
    match nearest(name, &known) {
        Some(near) => {
            Err(CommandError::usage(format!("there is no contract `{name}`; did you mean `{near}`?")))
        }
        None => {
            Err(CommandError::usage(format!("there is no contract `{name}`; there are {}", known.join(", "))))
        }
    }
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}
