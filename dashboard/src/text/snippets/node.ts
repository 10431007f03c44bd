import type { Signing } from "../signing";

const text = (value: string) => JSON.stringify(value);

export function node(signing: Signing, tolerance: number): string {
  const { form } = signing;
  const hasTime = form.hasTime || signing.timeHeader !== null;
  const isShared = signing.kind === "shared";
  const lines = [
    `import { ${isShared ? "createHmac, timingSafeEqual" : "createPublicKey, verify as isSignedBy"} } from "node:crypto";`,
    "",
    "/** Header names in lower case; body is a Buffer as it came, before any parser. */",
    "export function verify(headers, body) {",
    ...(isShared ? secretLines(signing) : publicKeyLines(signing)),
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
    ...(isShared ? hmacLines(signing, prefix) : ed25519Lines(signing, prefix)),
    signing.separator === null ? "  return isRight(given);" : `  return given.split(${text(signing.separator)}).some(isRight);`,
    "}",
  );
  return lines.join("\n");
}

function secretLines({ decodeAfter }: Signing): string[] {
  const key = decodeAfter === null ? "Buffer.from(secret)" : `Buffer.from(secret.slice(${text(decodeAfter)}.length), "base64")`;
  return ["  const secret = process.env.WEBHOOK_SECRET;", `  const key = ${key};`];
}

function publicKeyLines({ decodeAfter }: Signing): string[] {
  return [
    `  const raw = Buffer.from(process.env.WEBHOOK_PUBLIC_KEY.slice(${text(decodeAfter ?? "")}.length), "base64");`,
    '  const jwk = { kty: "OKP", crv: "Ed25519", x: raw.toString("base64url") };',
    '  const key = createPublicKey({ key: jwk, format: "jwk" });',
  ];
}

function hmacLines(signing: Signing, prefix: string): string[] {
  const updates = signing.parts.map((part) => `.update(${part.kind === "text" ? text(part.text) : part.kind})`);
  return [
    `  const hmac = createHmac("sha256", key)${updates.join("")};`,
    `  const expected = Buffer.from(${prefix === "" ? "" : `${text(prefix)} + `}hmac.digest("${signing.encoding}"));`,
    "  const isSame = (each) => each.length === expected.length && timingSafeEqual(each, expected);",
    "  const isRight = (each) => isSame(Buffer.from(each));",
  ];
}

function ed25519Lines(signing: Signing, prefix: string): string[] {
  const parts = signing.parts.map((part) =>
    part.kind === "body" ? "body" : `Buffer.from(${part.kind === "text" ? text(part.text) : part.kind})`,
  );
  const signature = `Buffer.from(each.slice(${text(prefix)}.length), "base64")`;
  return [
    `  const signed = Buffer.concat([${parts.join(", ")}]);`,
    `  const isRight = (each) => each.startsWith(${text(prefix)}) && isSignedBy(null, signed, key, ${signature});`,
  ];
}
