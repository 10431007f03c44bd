// Snippets that call the receiver kit, for Python and Rust, whose standard libraries lack ed25519. The kit is one file to copy
// and supports only the form of Standard Webhooks.
import type { Signing } from "../signing";

export function pythonByKit(signing: Signing, tolerance: number): string | null {
  if (!isStandard(signing)) return null;
  return `# Python has no ed25519 of its own: copy posthaste_webhooks.py out of Posthaste's receivers/python.
import os
from posthaste_webhooks import VerificationError, verify as check

def verify(headers, body: bytes) -> bool:
    """Body as it came, before any parser."""
    try:
        check("standard", headers, body, [os.environ["WEBHOOK_PUBLIC_KEY"]], tolerance=${tolerance})
    except VerificationError as error:
        if error.reason == "misconfigured":
            raise
        return False
    return True`;
}

export function rustByKit(signing: Signing, tolerance: number): string | null {
  if (!isStandard(signing)) return null;
  return `// Rust has no ed25519 of its own: copy posthaste_webhooks.rs out of Posthaste's receivers/rust/src.
// Cargo.toml: http = "1"
use crate::posthaste_webhooks::{self, Contract, Options};
use http::HeaderMap;

/// The body as it came, before any parser.
pub fn verify(headers: &HeaderMap, body: &[u8]) -> Option<()> {
    let key = std::env::var("WEBHOOK_PUBLIC_KEY").ok()?;
    let options = Options { tolerance: ${tolerance}, ..Options::default() };
    posthaste_webhooks::verify(Contract::Standard, headers, body, &[key], &options).ok().map(|_| ())
}`;
}

function isStandard({ header, parts, form, separator, timeHeader, idHeader }: Signing): boolean {
  const signed = parts.map((part) => (part.kind === "text" ? part.text : `{${part.kind}}`)).join("");
  const headers = [header, idHeader, timeHeader].join(" ");
  return (
    headers === "webhook-signature webhook-id webhook-timestamp" &&
    signed === "{id}.{t}.{body}" &&
    !form.hasTime &&
    form.beforeSignature === "v1a," &&
    separator === " "
  );
}
