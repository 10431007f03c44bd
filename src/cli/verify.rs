//! `posthaste verify`: checks the signature of a received request and explains a mismatch. Exit codes: 0 verified, 1
//! not verified, 2 it could not be checked.

mod request;

use super::{
    contracts::{self, KnownContracts},
    exit::ExitStatus,
    print,
    table::visible,
};
use crate::{
    domain::{
        contract::Contract,
        time::{DURATION_FORM, Timestamp, parse_duration},
        verification::{Diagnosis, IncomingRequest, Mismatch, Verified, VerifyOptions, diagnose, verify},
    },
    runtime::{Clock, SystemClock},
};
use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};
use std::{fmt::Write, fs, path::PathBuf, process::ExitCode, time::Duration};

const EXAMPLES: &str = "\
Examples:
  posthaste verify --secret-file secret.txt --headers headers.txt --body body.json
  posthaste verify --secret whsec_… --header 'webhook-id: evt_1' --header 'webhook-timestamp: 1794735000' \\
    --header 'webhook-signature: v1,…' --body - < body.json
  posthaste verify --contract zerofee --secret-file secret.txt --headers headers.txt --body body.json --at 2026-11-15T09:30:00Z

The body must be the bytes as they came, not what a framework parsed and printed again; if it is that, this says so.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    verifier: VerifyFlags,
    /// A file of headers: a line each, as they came, or a JSON object
    #[arg(long, value_name = "FILE")]
    headers: Option<PathBuf>,
    /// A header, as it came; may be given several times
    #[arg(long, value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// The body, byte for byte; - for standard input
    #[arg(long, value_name = "FILE")]
    body: PathBuf,
    /// When it was received [default: now]
    #[arg(long, value_name = "TIME", value_parser = time)]
    at: Option<Timestamp>,
    /// Print what was found as JSON
    #[arg(long)]
    json: bool,
}

/// Secret and contract that requests are checked against.
#[derive(Debug, Args)]
pub(super) struct VerifyFlags {
    /// The endpoint's secret, or its public key; several during a rotation. Better in a file: other users can see flags
    #[arg(long, value_name = "SECRET")]
    secret: Vec<String>,
    /// A file with the secret; several, a line each, during a rotation
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// The contract of the endpoint
    #[arg(long, value_name = "NAME", default_value = "standard")]
    contract: String,
    /// How far the time of the signature may be from now
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = tolerance)]
    tolerance: Duration,
    #[command(flatten)]
    known: KnownContracts,
}

/// The contract and the secrets that requests are verified with.
pub(super) struct RequestVerifier {
    pub(super) contract: Contract,
    pub(super) secrets: Vec<String>,
    tolerance: Duration,
    others: Vec<Contract>,
}

/// The result of verifying a request.
pub(super) struct VerifyResult {
    pub(super) verified: Result<Verified, Mismatch>,
    pub(super) diagnoses: Vec<Diagnosis>,
}

fn time(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse(text)
        .ok_or_else(|| "give a time in RFC 3339, for example 2026-11-15T09:30:00Z".to_owned())
}

fn tolerance(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| format!("give {DURATION_FORM}"))
}

impl VerifyFlags {
    pub(super) fn read(self) -> anyhow::Result<RequestVerifier> {
        let mut secrets = self.secret;
        if let Some(path) = &self.secret_file {
            let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
            // Line breaks are not part of a secret.
            secrets.extend(text.lines().filter(|line| !line.is_empty()).map(str::to_owned));
        }
        let others = self.known.load()?;
        let contract = contracts::find_contract(&others, &self.contract)?.clone();
        Ok(RequestVerifier { contract, secrets, tolerance: self.tolerance, others })
    }
}

impl RequestVerifier {
    pub(super) fn verify(&self, received: &IncomingRequest<'_>, now: Timestamp) -> VerifyResult {
        let Self { contract, secrets, tolerance, others } = self;
        let terms = VerifyOptions { contract, secrets, now, tolerance: *tolerance };
        let verified = verify(&terms, received);
        let found = verified.as_ref().err().map(|mismatch| diagnose(&terms, received, mismatch, others));
        VerifyResult { diagnoses: found.unwrap_or_default(), verified }
    }
}

impl VerifyResult {
    pub(super) fn json(&self) -> Value {
        let mismatch = self.verified.as_ref().err();
        let signed_at = self.verified.as_ref().ok().and_then(|genuine| genuine.signed_at);
        let clue = |clue: &Diagnosis| json!({ "code": clue.code(), "detail": clue.to_string(), "advice": clue.advice() });
        json!({
            "verified": self.verified.is_ok(),
            "signed_at": signed_at.map(|at| Timestamp::from_millis(at * 1000).rfc3339_seconds()),
            "mismatch": mismatch.map(|why| json!({ "code": why.code(), "detail": why.to_string() })),
            "clues": self.diagnoses.iter().map(clue).collect::<Vec<_>>(),
        })
    }

    /// Renders a line, and the clues below it.
    pub(super) fn text(&self, contract: &Contract, now: Timestamp) -> String {
        let mut out = match &self.verified {
            Ok(Verified { signed_at: Some(at) }) => {
                let age = now.as_seconds() - at;
                let age =
                    if age < 0 { format!("{} s ahead of this clock", -age) } else { format!("{age} s ago") };
                format!("verified (contract {}, signed {age})\n", contract.name)
            }
            Ok(Verified { signed_at: None }) => {
                format!("verified (contract {}, which tells no time)\n", contract.name)
            }
            Err(mismatch) => {
                format!("not verified (contract {}): {}\n", contract.name, visible(&mismatch.to_string()))
            }
        };
        for clue in &self.diagnoses {
            let _ = writeln!(out, "  why: {}\n  do:  {}", visible(&clue.to_string()), clue.advice());
        }
        out
    }
}

pub(super) fn run(args: VerifyArgs) -> ExitCode {
    match verify_request(args) {
        Ok((text, is_verified)) => {
            print(&text);
            if is_verified { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("posthaste: {error:#}");
            ExitStatus::Usage.into()
        }
    }
}

fn verify_request(args: VerifyArgs) -> anyhow::Result<(String, bool)> {
    let headers = request::headers(args.headers.as_deref(), &args.header)?;
    let body = request::body(&args.body)?;
    let verifier = args.verifier.read()?;
    let now = args.at.unwrap_or_else(|| SystemClock.now());
    let finding = verifier.verify(&IncomingRequest { headers: &headers, body: &body }, now);
    let text = if args.json {
        let mut found = finding.json();
        found["contract"] = json!(verifier.contract.name);
        format!("{found:#}\n")
    } else {
        finding.text(&verifier.contract, now)
    };
    Ok((text, finding.verified.is_ok()))
}
