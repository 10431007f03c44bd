import type { Signing } from "../signing";

export function node(signing: Signing, tolerance: number): string {
  const { form } = signing;
  const text = (value: string) => JSON.stringify(value);
  const hasTime = form.hasTime || signing.timeHeader !== null;
  const lines = [
    'import { createHmac, timingSafeEqual } from "node:crypto";',
    "",
    "/** Header names in lower case; body is a Buffer as it came, before any parser. */",
    "export function verify(headers, body) {",
    "  const secret = process.env.WEBHOOK_SECRET;",
    signing.decodeAfter === null
      ? "  const key = Buffer.from(secret);"
      : `  const key = Buffer.from(secret.slice(${text(signing.decodeAfter)}.length), "base64");`,
    `  ${form.hasTime ? "const header" : "const given"} = headers[${text(signing.header)}] ?? "";`,
  ];
  if (form.hasTime) {
    lines.push(`  const [time, given = ""] = header.split(${text(form.beforeSignature)});`);
    lines.push(`  const t = time.slice(${text(form.beforeTime)}.length);`);
  }
  if (signing.timeHeader) lines.push(`  const t = headers[${text(signing.timeHeader)}] ?? "";`);
  if (signing.idHeader) lines.push(`  const id = headers[${text(signing.idHeader)}] ?? "";`);
  if (hasTime) lines.push(`  if (!/^\\d+$/.test(t) || Math.abs(Date.now() / 1000 - Number(t)) > ${tolerance}) return false;`);
  const prefix = form.hasTime ? "" : form.beforeSignature;
  lines.push(
    `  const hmac = createHmac("sha256", key)${signing.parts.map((part) => `.update(${part.kind === "text" ? text(part.text) : part.kind})`).join("")};`,
    `  const expected = Buffer.from(${prefix === "" ? "" : `${text(prefix)} + `}hmac.digest("${signing.encoding}"));`,
    "  const isRight = (each) => each.length === expected.length && timingSafeEqual(each, expected);",
    signing.separator === null
      ? "  return isRight(Buffer.from(given));"
      : `  return given.split(${text(signing.separator)}).some((each) => isRight(Buffer.from(each)));`,
    "}",
  );
  return lines.join("\n");
}
