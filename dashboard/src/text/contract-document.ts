// A contract's document, typed as far as pages read it.

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

/** `X-{brand}-Event` → `X-ZeroFee-Event`. */
export function withBrand(text: string, contract: ContractDocument): string {
  return text.replaceAll("{brand}", contract.brand);
}

/** The headers that every attempt has, but for the signature's, with their templates. */
export function headerTemplates(contract: ContractDocument): [string, string][] {
  return Object.entries(contract.headers).map(([name, value]) => [withBrand(name, contract), withBrand(value, contract)]);
}
