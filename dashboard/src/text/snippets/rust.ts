import type { Signing } from "../signing";
import { rustByKit } from "./kit";

export function rust(signing: Signing, tolerance: number): string | null {
  if (signing.kind === "ed25519") return rustByKit(signing, tolerance);
  const { form } = signing;
  const text = (value: string) => JSON.stringify(value);
  const hasTime = form.hasTime || signing.timeHeader !== null;
  const isBase64 = signing.encoding === "base64" || signing.decodeAfter !== null;
  const crates = `// Cargo.toml: aws-lc-rs = "1"${isBase64 ? ', base64 = "0.23"' : ""}, http = "1"`;
  const lines = [crates, "use aws_lc_rs::hmac;"];
  if (isBase64) lines.push("use base64::{Engine, prelude::BASE64_STANDARD};");
  lines.push("use http::HeaderMap;");
  if (hasTime) lines.push("use std::time::{SystemTime, UNIX_EPOCH};");
  lines.push(
    "",
    "/// The body as it came, before any parser.",
    "pub fn verify(headers: &HeaderMap, body: &[u8]) -> Option<()> {",
    "    let header = |name: &str| headers.get(name)?.to_str().ok();",
    '    let secret = std::env::var("WEBHOOK_SECRET").ok()?;',
    signing.decodeAfter === null
      ? "    let key = secret.as_bytes();"
      : `    let key = BASE64_STANDARD.decode(secret.strip_prefix(${text(signing.decodeAfter)})?).ok()?;`,
    `    let given = header(${text(signing.header)})?;`,
  );
  if (form.hasTime) {
    lines.push(`    let (t, given) = given.strip_prefix(${text(form.beforeTime)})?.split_once(${text(form.beforeSignature)})?;`);
  }
  if (signing.timeHeader) lines.push(`    let t = header(${text(signing.timeHeader)})?;`);
  if (signing.idHeader) lines.push(`    let id = header(${text(signing.idHeader)})?;`);
  if (hasTime) {
    lines.push(
      "    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();",
      `    if now.abs_diff(t.parse().ok()?) > ${tolerance} {`,
      "        return None;",
      "    }",
    );
  }
  const pieces = signing.parts.map((part) =>
    part.kind === "text" ? `b${text(part.text)}` : part.kind === "body" ? "body" : `${part.kind}.as_bytes()`,
  );
  lines.push(
    pieces.length === 1
      ? `    let signed = ${pieces[0]};`
      : `    let signed = [${pieces.map((piece, at) => (at === 0 ? piece : piece.replace(/^b"(.*)"$/, 'b"$1".as_slice()'))).join(", ")}].concat();`,
    `    let key = hmac::Key::new(hmac::HMAC_SHA256, ${signing.decodeAfter === null ? "key" : "&key"});`,
  );
  const prefix = form.hasTime ? "" : form.beforeSignature;
  const candidates = signing.separator === null ? "[given].into_iter()" : `given.split(${text(signing.separator)})`;
  const decoded = signing.encoding === "hex" ? "unhex(each)" : "BASE64_STANDARD.decode(each).ok()";
  lines.push(
    `    let mut signatures = ${candidates}${prefix === "" ? "" : `.filter_map(|each| each.strip_prefix(${text(prefix)}))`};`,
    "    // hmac::verify compares in constant time.",
    `    let is_right = |each: &str| ${decoded}.is_some_and(|tag| hmac::verify(&key, ${pieces.length === 1 ? "signed" : "&signed"}, &tag).is_ok());`,
    "    signatures.any(is_right).then_some(())",
    "}",
  );
  if (signing.encoding === "hex") {
    lines.push(
      "",
      "fn unhex(text: &str) -> Option<Vec<u8>> {",
      "    let is_hex = text.len() % 2 == 0 && text.bytes().all(|byte| byte.is_ascii_hexdigit());",
      "    let pairs = (0..text.len()).step_by(2);",
      "    is_hex.then(|| pairs.filter_map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect())",
      "}",
    );
  }
  return lines.join("\n");
}
