// A delivery as a shell command. It signs when it runs, because receivers reject an old timestamp. The secret comes from a
// variable, so that it is in no clipboard and no history.
import type { ContractDocument } from "./contract-document";
import type { Payload } from "./payload-version";
import { type AttemptInput, type RequestInput, requestBody, requestHeaders } from "./request";
import { type Signing, signingOf, signsTime } from "./signing";

/** Returns the command, or null if a shell cannot make the signature or the body. */
export function curlText(
  contract: ContractDocument,
  input: RequestInput,
  payload: Payload,
  attempt: AttemptInput,
  url: string,
): string | null {
  // A shell has no tool for ed25519, and the receiver must not have the private key.
  const signing = input.keyKind === "shared" ? signingOf(contract) : null;
  const body = requestBody(contract, input, payload);
  if (signing === null || body === null) return null;
  const headers = requestHeaders(contract, input, attempt)
    .filter(([name]) => name !== signing.header && name !== "user-agent")
    .map(([name, value]) => `  -H ${headerText(name, value, name === signing.timeHeader || isTime(contract, name))} \\`);
  const signature = `${signing.form.beforeTime}${signing.form.hasTime ? "$t" : ""}${signing.form.beforeSignature}$signature`;
  return [
    "# Set WEBHOOK_SECRET to the endpoint's secret first.",
    `body=${quoted(body)}`,
    ...(signsTime(signing) || usesTime(contract) ? ["t=$(date +%s)"] : []),
    ...keyLines(signing),
    `signature=$(printf '%s' ${signedText(signing, input)} | ${digest(signing)})`,
    `curl -sS -i ${quoted(url)} \\`,
    ...headers,
    `  -H "${signing.header}: ${signature}" \\`,
    '  --data-binary "$body"',
  ].join("\n");
}

/** Quotes any text for a shell. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

function headerText(name: string, value: string, isTimeHeader: boolean): string {
  return isTimeHeader ? `"${name}: $t"` : quoted(`${name}: ${value}`);
}

function isTime(contract: ContractDocument, name: string): boolean {
  return Object.entries(contract.headers).some(
    ([each, value]) => value === "{t}" && each.replaceAll("{brand}", contract.brand).toLowerCase() === name,
  );
}

function usesTime(contract: ContractDocument): boolean {
  return Object.values(contract.headers).includes("{t}");
}

function signedText(signing: Signing, input: RequestInput): string {
  const pieces = signing.parts.map((part) => {
    if (part.kind === "text") return quoted(part.text);
    if (part.kind === "id") return quoted(input.eventId);
    return part.kind === "t" ? '"$t"' : '"$body"';
  });
  return pieces.join("");
}

function keyLines(signing: Signing): string[] {
  if (signing.decodeAfter === null) return [];
  const rest = signing.decodeAfter === "" ? "$WEBHOOK_SECRET" : `\${WEBHOOK_SECRET#${signing.decodeAfter}}`;
  return [`key=$(printf '%s' "${rest}" | base64 -d | od -An -v -tx1 | tr -d ' \\n')`];
}

function digest(signing: Signing): string {
  const key = signing.decodeAfter === null ? '-hmac "$WEBHOOK_SECRET"' : '-mac HMAC -macopt "hexkey:$key"';
  const hmac = `openssl dgst -sha256 ${key} -binary`;
  return signing.encoding === "base64" ? `${hmac} | base64 -w0` : `${hmac} | od -An -v -tx1 | tr -d ' \\n'`;
}
