import type { Signing } from "../signing";

export function php(signing: Signing, tolerance: number): string {
  const { form } = signing;
  const text = (value: string) => `'${value.replace(/['\\]/g, "\\$&")}'`;
  const hasTime = form.hasTime || signing.timeHeader !== null;
  const lines = [
    "<?php",
    "/** Header names in lower case; the body is file_get_contents('php://input'). */",
    "function verify(array $headers, string $body): bool",
    "{",
    "    $secret = getenv('WEBHOOK_SECRET');",
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
  const signed = signing.parts.map((part) => (part.kind === "text" ? text(part.text) : `$${part.kind}`)).join(" . ");
  const digest =
    signing.encoding === "hex"
      ? `hash_hmac('sha256', ${signed}, $key)`
      : `base64_encode(hash_hmac('sha256', ${signed}, $key, true))`;
  const prefix = form.hasTime ? "" : form.beforeSignature;
  lines.push(`    $expected = ${prefix === "" ? "" : `${text(prefix)} . `}${digest};`);
  if (signing.separator === null) lines.push("    return hash_equals($expected, $given);");
  else {
    lines.push(`    foreach (explode(${text(signing.separator)}, $given) as $each) {`);
    lines.push(
      "        if (hash_equals($expected, $each)) {",
      "            return true;",
      "        }",
      "    }",
      "    return false;",
    );
  }
  lines.push("}");
  return lines.join("\n");
}
