// Derives from a contract's templates how a receiver verifies signatures. Snippets and `curl` commands are built from it.
import { type ContractDocument, withBrand, headerTemplates } from "./contract-document";

/** `shared`: both sides have the same secret. `ed25519`: Posthaste has a private key, the receiver the public one. */
export type KeyKind = "shared" | "ed25519";

export type SignedPart = { kind: "id" | "t" | "body" } | { kind: "text"; text: string };

export interface Signing {
  kind: KeyKind;
  /** Name of the signature header, in lower case. */
  header: string;
  /** The signed text, part by part. */
  parts: SignedPart[];
  /** The header's form: the text before the signature, and before that the time, if the header has it. */
  form: { beforeTime: string; hasTime: boolean; beforeSignature: string };
  /** Separator of several signatures; null if there is always one. */
  separator: string | null;
  timeHeader: string | null;
  idHeader: string | null;
  encoding: "hex" | "base64";
  /** Prefix of the base64 in the receiver's key; null if the secret itself is the key. */
  decodeAfter: string | null;
}

/** Prefix of a public key, the same for all contracts. */
const PUBLIC_PREFIX = "whpk_";

/** Returns the kind of an endpoint's secret. Without `key_kind` it is shared. */
export function keyKindOf(endpoint: { id: string; key_kind?: string | null }): KeyKind {
  return endpoint.key_kind === "ed25519" ? "ed25519" : "shared";
}

/** Returns the template of the signature header's value. */
export function signatureTemplate({ signature }: ContractDocument, kind: KeyKind): string | null {
  return kind === "ed25519" ? signature.ed25519 : signature.hmac_sha256;
}

/** Returns how to verify a contract's signatures. Null if it has none of this kind, or one in an unknown form. */
export function signingOf(contract: ContractDocument, kind: KeyKind = "shared"): Signing | null {
  const { signature, secret } = contract;
  const known = kind === "ed25519" ? ["base64"] : ["base64", "hex"];
  const template = signatureTemplate(contract, kind);
  if (template === null || !known.includes(signature.encoding)) return null;
  const form = /^([^{}]*)(?:\{t\}([^{}]*))?\{signature\}$/.exec(template);
  if (form === null) return null;
  const [, first = "", second] = form;
  const hasTime = second !== undefined;
  const parts = signedParts(signature.signs);
  const templates = headerTemplates(contract);
  const headerOf = (template: string) => templates.find(([, value]) => value === template)?.[0].toLowerCase() ?? null;
  const signs = (kind: SignedPart["kind"]) => parts.some((part) => part.kind === kind);
  const idHeader = signs("id") ? headerOf("{id}") : null;
  const timeHeader = signs("t") && !hasTime ? headerOf("{t}") : null;
  if ((signs("id") && idHeader === null) || (signs("t") && !hasTime && timeHeader === null)) return null;
  return {
    kind,
    header: withBrand(signature.header, contract).toLowerCase(),
    parts,
    form: hasTime ? { beforeTime: first, hasTime, beforeSignature: second } : { beforeTime: "", hasTime, beforeSignature: first },
    // Receivers of Standard Webhooks read a list, even if this sender always sends one signature.
    separator: secret.rotation === "both" || idHeader !== null ? signature.separator : null,
    timeHeader,
    idHeader,
    encoding: signature.encoding as Signing["encoding"],
    decodeAfter: kind === "ed25519" ? PUBLIC_PREFIX : secret.key === "base64" ? (secret.prefix ?? "") : null,
  };
}

function signedParts(template: string): SignedPart[] {
  return template
    .split(/(\{\w+\})/)
    .filter((piece) => piece !== "")
    .map((piece): SignedPart => {
      const name = /^\{(id|t|body)\}$/.exec(piece)?.[1];
      return name ? { kind: name as "id" | "t" | "body" } : { kind: "text", text: piece };
    });
}

export function signsTime(signing: Signing): boolean {
  return signing.parts.some((part) => part.kind === "t");
}

/** Describes the header or field that a receiver should deduplicate by. */
export function deduplicateBy(contract: ContractDocument): string | null {
  const field = (from: string) => contract.body.fields.find((each) => each.from === from)?.name;
  const inBody = field("delivery_id") ?? field("event_id");
  const header = headerTemplates(contract).find(([, value]) => ["{id}", "{event_id}", "{delivery_id}"].includes(value))?.[0];
  if (contract.signature.signs.includes("{id}") && header) return `the header ${header.toLowerCase()}`;
  if (inBody) return `“${inBody}” in the body`;
  return header ? `the header ${header.toLowerCase()}` : null;
}
