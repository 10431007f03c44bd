import type { Signing } from "../signing";

const text = (value: string) => `'${value.replace(/['\\]/g, "\\$&")}'`;

export function php(signing: Signing, tolerance: number): string {
  const { form } = signing;
  const hasTime = form.hasTime || signing.timeHeader !== null;
  const lines = [
    "<?php",
    "/** Header names in lower case; the body is file_get_contents('php://input'). */",
    "function verify(array $headers, string $body): bool",
    "{",
    `    $secret = getenv('${signing.kind === "shared" ? "WEBHOOK_SECRET" : "WEBHOOK_PUBLIC_KEY"}');`,
    signing.decodeAfter === null
      ? "    $key = $secret;"
      : `    $key = base64_decode(substr($secret, strlen(${text(signing.decodeAfter)})));`,
    `    $given = $headers[${text(signing.header)}] ?? '';`,
  ];
  if (form.hasTime) {
    lines.push(`    [$time, $given] = explode(${text(form.beforeSignature)}, $given, 2) + ['', ''];`);
    lines.push(`    $t = substr($time, strlen(${text(form.beforeTime)}));`);
  }
  if (signing.timeHeader) lines.push(`    $t = $headers[${text(signing.timeHeader)}] ?? '';`);
  if (signing.idHeader) lines.push(`    $id = $headers[${text(signing.idHeader)}] ?? '';`);
  if (hasTime)
    lines.push(`    if (!ctype_digit($t) || abs(time() - (int) $t) > ${tolerance}) {`, "        return false;", "    }");
  const prefix = form.hasTime ? "" : form.beforeSignature;
  lines.push(...(signing.kind === "shared" ? hmacLines(signing, prefix) : ed25519Lines(signing, prefix)), "}");
  return lines.join("\n");
}

function signedText(signing: Signing): string {
  return signing.parts.map((part) => (part.kind === "text" ? text(part.text) : `$${part.kind}`)).join(" . ");
}

function hmacLines(signing: Signing, prefix: string): string[] {
  const signed = signedText(signing);
  const digest =
    signing.encoding === "hex"
      ? `hash_hmac('sha256', ${signed}, $key)`
      : `base64_encode(hash_hmac('sha256', ${signed}, $key, true))`;
  const expected = `    $expected = ${prefix === "" ? "" : `${text(prefix)} . `}${digest};`;
  if (signing.separator === null) return [expected, "    return hash_equals($expected, $given);"];
  return [
    expected,
    `    foreach (explode(${text(signing.separator)}, $given) as $each) {`,
    "        if (hash_equals($expected, $each)) {",
    "            return true;",
    "        }",
    "    }",
    "    return false;",
  ];
}

/** Uses the extension sodium, which comes with PHP. It throws if lengths are wrong. */
function ed25519Lines(signing: Signing, prefix: string): string[] {
  const all = signing.separator === null ? "[$given]" : `explode(${text(signing.separator)}, $given)`;
  return [
    `    $signed = ${signedText(signing)};`,
    `    foreach (${all} as $each) {`,
    `        $signature = str_starts_with($each, ${text(prefix)}) ? base64_decode(substr($each, strlen(${text(prefix)}))) : '';`,
    "        if (strlen($signature) === 64 && sodium_crypto_sign_verify_detached($signature, $signed, $key)) {",
    "            return true;",
    "        }",
    "    }",
    "    return false;",
  ];
}
