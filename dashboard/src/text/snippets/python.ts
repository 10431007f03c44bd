import type { Signing } from "../signing";
import { pythonByKit } from "./kit";

export function python(signing: Signing, tolerance: number): string | null {
  if (signing.kind === "ed25519") return pythonByKit(signing, tolerance);
  const { form } = signing;
  const text = (value: string) => JSON.stringify(value);
  const lines = ["import base64, hashlib, hmac, os, time".replace("base64, ", usesBase64(signing) ? "base64, " : "")];
  if (!hasTime(signing)) lines[0] = lines[0]!.replace(", time", "");
  lines.push(
    "",
    "def verify(headers, body: bytes) -> bool:",
    `    """Header names in lower case; body as it came, before any parser."""`,
    `    secret = os.environ["WEBHOOK_SECRET"]`,
    signing.decodeAfter === null
      ? "    key = secret.encode()"
      : `    key = base64.b64decode(secret.removeprefix(${text(signing.decodeAfter)}))`,
    `    given = headers.get(${text(signing.header)}, "")`,
  );
  if (form.hasTime) {
    lines.push(`    t, _, given = given.removeprefix(${text(form.beforeTime)}).partition(${text(form.beforeSignature)})`);
  }
  if (signing.timeHeader) lines.push(`    t = headers.get(${text(signing.timeHeader)}, "")`);
  if (signing.idHeader) lines.push(`    id = headers.get(${text(signing.idHeader)}, "")`);
  if (hasTime(signing))
    lines.push(`    if not t.isascii() or not t.isdigit() or abs(time.time() - int(t)) > ${tolerance}:`, "        return False");
  lines.push(`    signed = ${signedText(signing)}`, "    digest = hmac.new(key, signed, hashlib.sha256)");
  const encoded = signing.encoding === "hex" ? "digest.hexdigest()" : "base64.b64encode(digest.digest()).decode()";
  const prefix = form.hasTime ? "" : form.beforeSignature;
  lines.push(`    expected = ${prefix === "" ? "" : `${text(prefix)} + `}${encoded}`);
  lines.push(
    signing.separator === null
      ? "    return hmac.compare_digest(given.encode(), expected.encode())"
      : `    return any(hmac.compare_digest(each.encode(), expected.encode()) for each in given.split(${text(signing.separator)}))`,
  );
  return lines.join("\n");
}

function signedText(signing: Signing): string {
  const pieces = signing.parts.map((part) => {
    if (part.kind === "text") return `b${JSON.stringify(part.text)}`;
    return part.kind === "body" ? "body" : `${part.kind}.encode()`;
  });
  return pieces.join(" + ");
}

function hasTime(signing: Signing): boolean {
  return signing.form.hasTime || signing.timeHeader !== null;
}

function usesBase64(signing: Signing): boolean {
  return signing.encoding === "base64" || signing.decodeAfter !== null;
}
