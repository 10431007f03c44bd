//! Checks of the configuration: it loads, the files it names can be read, and risky values get a warning.

use super::CheckLine;
use crate::{
    app,
    config::Settings,
    outbound::{ClientOptions, HttpClient, SystemResolver},
};
use ipnet::IpNet;
use std::{fs, net::IpAddr, path::Path, sync::Arc};

const CONFIGURATION_CHECK: &str = "configuration";
const ADMIN_KEY_CHARS_MIN: usize = 32;
/// Addresses where clouds serve the credentials of a machine.
const METADATA_ADDRESSES: [&str; 2] = ["169.254.169.254", "fd00:ec2::254"];

/// Checks the settings. `store` is the store's file, if it has one.
pub(super) fn check_settings(settings: &Settings, store: Option<&Path>) -> Vec<CheckLine> {
    let mut lines = vec![CheckLine::ok(CONFIGURATION_CHECK, "it loads")];
    lines.extend(check_addresses(settings));
    if !settings.listen.ip().is_loopback() {
        let said = format!("listen is {}: others can reach the API, in plain HTTP", settings.listen);
        lines.push(CheckLine::warning(
            CONFIGURATION_CHECK,
            said,
            "Put something that speaks TLS in front, and let nothing else through.",
        ));
    }
    lines.extend(check_keys(settings, store));
    lines.push(match app::contracts(settings) {
        Ok(contracts) => CheckLine::ok("contracts", format!("{} can be used", contracts.len())),
        Err(error) => CheckLine::failed(
            "contracts",
            format!("{error:#}"),
            "Repair the file, or name another contracts_dir.",
        ),
    });
    lines.extend(settings.extra_ca.as_deref().map(check_extra_ca));
    lines
}

fn check_addresses(settings: &Settings) -> Vec<CheckLine> {
    let mut lines = Vec::new();
    if !settings.https_only {
        let said = "https_only is false: endpoints may be called without encryption";
        lines.push(CheckLine::warning(
            CONFIGURATION_CHECK,
            said,
            "Set https_only to true, unless every endpoint is inside your own network.",
        ));
    }
    let metadata: Vec<IpAddr> =
        METADATA_ADDRESSES.iter().filter_map(|address| address.parse().ok()).collect();
    for net in &settings.allow_addresses {
        let is_wide = match net {
            IpNet::V4(net) => net.prefix_len() < 8,
            IpNet::V6(net) => net.prefix_len() < 16,
        };
        if is_wide {
            let said = format!(
                "allow_addresses has {net}, which is wide: endpoints may lead into networks of your own"
            );
            lines.push(CheckLine::warning(
                CONFIGURATION_CHECK,
                said,
                "Name the networks that are meant, as small as they are.",
            ));
        } else if metadata.iter().any(|address| net.contains(address)) {
            let said = format!("allow_addresses has {net}, where clouds keep the credentials of machines");
            lines.push(CheckLine::warning(
                CONFIGURATION_CHECK,
                said,
                "Take it out: whoever may make endpoints could read them.",
            ));
        }
    }
    lines
}

fn check_keys(settings: &Settings, store: Option<&Path>) -> Vec<CheckLine> {
    let mut lines = Vec::new();
    let not_set = |name: &str, kept: &str, advice: &str| match store {
        Some(store) => {
            let said = format!("{name} is not set: one is kept in {}.{kept}", store.display());
            CheckLine::warning("keys", said, advice)
        }
        None => CheckLine::failed("keys", format!("{name} is not set: with a database it must be"), advice),
    };
    match &settings.admin_key {
        None => {
            let advice = "Set POSTHASTE_ADMIN_KEY from where you keep secrets.";
            lines.push(not_set("admin_key", "admin-key", advice));
        }
        Some(key) if key.reveal().len() < ADMIN_KEY_CHARS_MIN => {
            let said = format!("admin_key has fewer than {ADMIN_KEY_CHARS_MIN} characters");
            lines.push(CheckLine::warning("keys", said, "Make a longer one, of random characters."));
        }
        Some(_) => lines.push(CheckLine::ok("keys", "admin_key is set")),
    }
    lines.push(match &settings.encryption_key {
        None => not_set(
            "encryption_key",
            "encryption-key, beside what it protects",
            "Set POSTHASTE_ENCRYPTION_KEY, and keep it apart from backups of the store.",
        ),
        Some(_) => CheckLine::ok("keys", "encryption_key is set"),
    });
    lines
}

fn check_extra_ca(path: &Path) -> CheckLine {
    let advice = "Give a PEM file of certificate authorities, or take extra_ca out.";
    let pem = match fs::read(path) {
        Ok(pem) => pem,
        Err(error) => return CheckLine::failed("extra_ca", format!("{}: {error}", path.display()), advice),
    };
    let options = ClientOptions { extra_ca_pem: Some(pem), ..ClientOptions::default() };
    match HttpClient::new(options, Arc::new(SystemResolver::default())) {
        Ok(_) => CheckLine::ok("extra_ca", format!("{} can be used", path.display())),
        Err(error) => CheckLine::failed("extra_ca", format!("{}: {error}", path.display()), advice),
    }
}
