// How a receiver checks a contract's signature, worked out of its templates; snippets and `curl` are written from it.
import { type ContractDocument, withBrand, headerTemplates } from "./contract-document";

/** Who holds what: the same secret on both sides, or a private key here and a public one there. */
export type KeyKind = "shared" | "ed25519";

export type SignedPart = { kind: "id" | "t" | "body" } | { kind: "text"; text: string };

export interface Signing {
  kind: KeyKind;
  /** Lower case. */
  header: string;
  /** What is signed, piece by piece. */
  parts: SignedPart[];
  /** What stands before the signature in its header, and before that the time if it is in there too. */
  form: { beforeTime: string; hasTime: boolean; beforeSignature: string };
  /** What separates several signatures; null if there is one only. */
  separator: string | null;
  timeHeader: string | null;
  idHeader: string | null;
  encoding: "hex" | "base64";
  /** What precedes the base64 of the receiver's key; null if the secret is the key as it is. */
  decodeAfter: string | null;
}

/** Stands before a public key, whatever the contract. */
const PUBLIC_PREFIX = "whpk_";

/** What kind of secret an endpoint has; one that does not say has a shared one. */
export function keyKindOf(endpoint: { id: string; key_kind?: string | null }): KeyKind {
  return endpoint.key_kind === "ed25519" ? "ed25519" : "shared";
}

/** A signature's value in its header, as a template. */
export function signatureTemplate({ signature }: ContractDocument, kind: KeyKind): string | null {
  return kind === "ed25519" ? signature.ed25519 : signature.hmac_sha256;
}

/** Null where there is no signature of this kind, or it has a form that these pages do not know. */
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
    // Receivers of Standard Webhooks read a list, whether this sender ever makes one or not.
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

/** What a receiver should deduplicate by, in words. */
export function deduplicateBy(contract: ContractDocument): string | null {
  const field = (from: string) => contract.body.fields.find((each) => each.from === from)?.name;
  const inBody = field("delivery_id") ?? field("event_id");
  const header = headerTemplates(contract).find(([, value]) => ["{id}", "{event_id}", "{delivery_id}"].includes(value))?.[0];
  if (contract.signature.signs.includes("{id}") && header) return `the header ${header.toLowerCase()}`;
  if (inBody) return `“${inBody}” in the body`;
  return header ? `the header ${header.toLowerCase()}` : null;
}
