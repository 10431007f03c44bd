// The types of posthaste-webhooks.mjs.

export type Contract = "standard" | "sendnomi" | "zerofee" | "bastionary" | "orientedos" | "simpaisa";

export type Reason =
  /** The error is on this side (no usable secret, unknown contract, a parsed body): answer 5xx. */
  | "misconfigured"
  | "missing_header"
  | "repeated_header"
  | "malformed_id"
  | "malformed_timestamp"
  | "malformed_signature"
  /** The given secrets can check none of the signatures. */
  | "no_usable_signature"
  | "signature_mismatch"
  | "timestamp_too_old"
  | "timestamp_too_new";

/**
 * The values of a verified request. Deduplicate by `id`; if it is null, by the body's member `idField`.
 *
 * Not covered by the signature: the `id` of `orientedos` and the `timestamp` of `simpaisa`. An attacker with an old request of
 * these can send it again with another id or time.
 */
export interface Verified {
  readonly id: string | null;
  readonly idField: string | null;
  /** Unix seconds; null where the contract sends no time. */
  readonly timestamp: number | null;
}

export interface Options {
  /** Replaces the contract's own name in `X-{brand}-Signature`. */
  brand?: string;
  /** Unix seconds; the current time if absent. */
  now?: number;
  /** Seconds into the past and into the future; 300 if absent. */
  tolerance?: number;
}

/** `request.headers` of node:http, `Headers` of fetch, a Map, or pairs. Names in any case. */
export type RequestHeaders =
  | { readonly [name: string]: string | readonly string[] | undefined }
  | Iterable<readonly [string, string | readonly string[]]>;

export class VerificationError extends Error {
  constructor(reason: Reason, message: string);
  readonly name: "VerificationError";
  readonly reason: Reason;
}

export const CONTRACTS: readonly Contract[];
export const REASONS: readonly Reason[];

/** Throws a `VerificationError` unless the request is genuine. `body` is what arrived, byte for byte. */
export function verify(
  contract: Contract,
  headers: RequestHeaders,
  body: Uint8Array,
  secrets: string | readonly string[],
  options?: Options,
): Verified;
