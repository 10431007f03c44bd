// The part of a contract's document that pages read.

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

/** Inserts the brand: `X-{brand}-Event` → `X-ZeroFee-Event`. */
export function withBrand(text: string, contract: ContractDocument): string {
  return text.replaceAll("{brand}", contract.brand);
}

/** Returns the headers of every attempt with their templates, without the signature header. */
export function headerTemplates(contract: ContractDocument): [string, string][] {
  return Object.entries(contract.headers).map(([name, value]) => [withBrand(name, contract), withBrand(value, contract)]);
}
