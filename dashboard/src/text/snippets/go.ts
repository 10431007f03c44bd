import type { Signing } from "../signing";

const text = (value: string) => JSON.stringify(value);

export function go(signing: Signing, tolerance: number): string {
  const { form } = signing;
  const isShared = signing.kind === "shared";
  const hasTime = form.hasTime || signing.timeHeader !== null;
  const isBase64 = signing.encoding === "base64" || signing.decodeAfter !== null;
  const imports = isShared ? ["crypto/hmac", "crypto/sha256"] : ["crypto/ed25519"];
  if (isBase64) imports.push("encoding/base64");
  if (signing.encoding === "hex") imports.push("encoding/hex");
  imports.push("net/http", "os");
  if (hasTime) imports.push("strconv");
  if (form.hasTime || signing.decodeAfter !== null || signing.separator !== null) imports.push("strings");
  if (hasTime) imports.push("time");
  const lines = ["import (", ...imports.map((name) => `\t"${name}"`), ")", ""];
  lines.push(
    "// Verify takes the body as it came, before any parser.",
    "func Verify(header http.Header, body []byte) bool {",
    `\tsecret := os.Getenv("${isShared ? "WEBHOOK_SECRET" : "WEBHOOK_PUBLIC_KEY"}")`,
  );
  if (signing.decodeAfter === null) lines.push("\tkey := []byte(secret)");
  else {
    lines.push(`\tkey, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, ${text(signing.decodeAfter)}))`);
    const isBad = isShared ? "err != nil" : "err != nil || len(key) != ed25519.PublicKeySize";
    lines.push(`\tif ${isBad} {`, "\t\treturn false", "\t}");
  }
  lines.push(`\t${form.hasTime ? "signature" : "given"} := header.Get(${text(signing.header)})`);
  if (form.hasTime) {
    lines.push(
      `\tt, given, _ := strings.Cut(strings.TrimPrefix(signature, ${text(form.beforeTime)}), ${text(form.beforeSignature)})`,
    );
  }
  if (signing.timeHeader) lines.push(`\tt := header.Get(${text(signing.timeHeader)})`);
  if (signing.idHeader) lines.push(`\tid := header.Get(${text(signing.idHeader)})`);
  if (hasTime) {
    lines.push(
      "\tsentAt, err := strconv.ParseInt(t, 10, 64)",
      `\tif age := time.Now().Unix() - sentAt; err != nil || age > ${tolerance} || age < -${tolerance} {`,
      "\t\treturn false",
      "\t}",
    );
  }
  const prefix = form.hasTime ? "" : form.beforeSignature;
  lines.push(...(isShared ? hmacLines(signing, prefix) : ed25519Lines(signing, prefix)), "}");
  return lines.join("\n");
}

function hmacLines(signing: Signing, prefix: string): string[] {
  const lines = ["\tmac := hmac.New(sha256.New, key)"];
  for (const part of digestInputs(signing)) lines.push(`\tmac.Write(${part})`);
  const encoded = signing.encoding === "hex" ? "hex.EncodeToString" : "base64.StdEncoding.EncodeToString";
  lines.push(`\texpected := []byte(${prefix === "" ? "" : `${text(prefix)} + `}${encoded}(mac.Sum(nil)))`);
  if (signing.separator === null) return [...lines, "\treturn hmac.Equal([]byte(given), expected)"];
  lines.push(`\tfor _, each := range strings.Split(given, ${text(signing.separator)}) {`);
  lines.push("\t\tif hmac.Equal([]byte(each), expected) {", "\t\t\treturn true", "\t\t}", "\t}", "\treturn false");
  return lines;
}

function ed25519Lines(signing: Signing, prefix: string): string[] {
  const parts = signing.parts.map((part) =>
    part.kind === "text" ? text(part.text) : part.kind === "body" ? "string(body)" : part.kind,
  );
  const all = signing.separator === null ? "[]string{given}" : `strings.Split(given, ${text(signing.separator)})`;
  return [
    `\tsigned := []byte(${parts.join(" + ")})`,
    `\tfor _, each := range ${all} {`,
    `\t\tsignature, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(each, ${text(prefix)}))`,
    "\t\tif err == nil && ed25519.Verify(key, signed, signature) {",
    "\t\t\treturn true",
    "\t\t}",
    "\t}",
    "\treturn false",
  ];
}

/** Returns the inputs of the digest. Adjacent text parts are joined into one. */
function digestInputs(signing: Signing): string[] {
  const out: string[] = [];
  let text: string[] = [];
  const flush = () => {
    if (text.length > 0) out.push(`[]byte(${text.join(" + ")})`);
    text = [];
  };
  for (const part of signing.parts) {
    if (part.kind === "body") {
      flush();
      out.push("body");
    } else text.push(part.kind === "text" ? JSON.stringify(part.text) : part.kind);
  }
  flush();
  return out;
}
