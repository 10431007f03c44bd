// A contract's document, typed as far as pages read it, with an endpoint's overrides laid over it.

export interface ContractDocument {
  name: string;
  brand: string;
  user_agent: string;
  timeout: string;
  body: { form: string; json: string; time: string; fields: { name: string; from: string }[] };
  signature: {
    header: string;
    signs: string;
    hmac_sha256: string | null;
    ed25519: string | null;
    encoding: string;
    separator: string;
  };
  secret: { key: string; prefix: string | null; rotation: string };
  headers: Record<string, string>;
  retry: { waits: string[]; jitter: string; final_wait: string | null; give_up_after: string | null };
  off: { waiting: string; published: string };
  [section: string]: unknown;
}

type Json = Record<string, unknown>;

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Objects are merged field by field, everything else is replaced whole, as the API does it. */
export function withOverrides(document: unknown, ...overrides: unknown[]): ContractDocument {
  const merged = overrides.reduce((under, over) => (isObject(over) ? merge(under, over) : under), document);
  return merged as ContractDocument;
}

function merge(under: unknown, over: unknown): unknown {
  if (!isObject(under) || !isObject(over)) return over;
  const merged: Json = { ...under };
  for (const [name, value] of Object.entries(over)) merged[name] = merge(under[name], value);
  return merged;
}

/** `X-{brand}-Event` → `X-ZeroFee-Event`. */
export function branded(text: string, contract: ContractDocument): string {
  return text.replaceAll("{brand}", contract.brand);
}

/** The headers that every attempt has, but for the signature's, with their templates. */
export function headerTemplates(contract: ContractDocument): [string, string][] {
  return Object.entries(contract.headers).map(([name, value]) => [branded(name, contract), branded(value, contract)]);
}
