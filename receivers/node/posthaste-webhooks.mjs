// Verifies webhooks sent by Posthaste. Copy this file (and the .d.mts beside it for TypeScript): Node.js 18 or newer, nothing else.
//
//     const verified = verify("standard", request.headers, rawBody, [secret]);
//
// `rawBody` is the body as it arrived, byte for byte, before any parser. Several secrets may be given, so that an old and a new one
// both work while you change over. Every failure throws a `VerificationError`, with a `reason` for programs and a message for
// people. After `misconfigured` answer 5xx (the error is on this side), after every other reason 4xx.
import { createHmac, createPublicKey, timingSafeEqual, verify as verifySignature } from "node:crypto";

// form: list is `v1,base64 v1,base64`, stamped is `t=1,v1=hex`, plain is `sha256=hex`.
// key: base64 is what follows `whsec_`, decoded, text is the whole secret.
const STANDARD = { form: "list", signature: "webhook-signature", timestamp: "webhook-timestamp", id: "webhook-id" };
const STAMPED = { form: "stamped", key: "text", signature: "x-{}-signature" };
const PLAIN = { form: "plain", key: "text", signature: "x-{}-signature" };
const RULES = new Map([
  ["standard", { ...STANDARD, key: "base64" }],
  ["sendnomi", { ...STANDARD, key: "text" }],
  ["zerofee", { ...STAMPED, brand: "ZeroFee", idField: "id" }],
  ["bastionary", { ...STAMPED, brand: "Bastionary", idField: "delivery_id" }],
  ["orientedos", { ...PLAIN, brand: "OrientedOS", id: "x-{}-delivery-id" }],
  ["simpaisa", { ...PLAIN, brand: "Simpaisa", timestamp: "x-{}-timestamp", idField: "event_id" }],
]);

export const CONTRACTS = Object.freeze([...RULES.keys()]);

export const REASONS = Object.freeze([
  "misconfigured",
  "missing_header",
  "repeated_header",
  "malformed_id",
  "malformed_timestamp",
  "malformed_signature",
  "no_usable_signature",
  "signature_mismatch",
  "timestamp_too_old",
  "timestamp_too_new",
]);

const HEADER_MAX = 2048;

/** The request must not be trusted. `reason` is one of `REASONS`. */
export class VerificationError extends Error {
  constructor(reason, message) {
    super(message);
    this.name = "VerificationError";
    this.reason = reason;
  }
}

/**
 * Returns the request's values, or throws a `VerificationError`.
 *
 * `brand` replaces the contract's own name in `X-{brand}-Signature`. `tolerance` is in seconds, into the past and into the future.
 * `orientedos` sends no time, so old requests are accepted like new ones: deduplicate.
 */
export function verify(contract, headers, body, secrets, { brand, now, tolerance = 300 } = {}) {
  const rules = rulesOf(contract, brand);
  const keys = keysOf(rules, secrets);
  if (!(body instanceof Uint8Array)) {
    fail("misconfigured", "The body must be the raw bytes that arrived (a Buffer), not text or parsed JSON.");
  }
  if (!(tolerance >= 0)) fail("misconfigured", "The tolerance must be a number of seconds, not negative.");

  let signature = header(headers, rules.signature);
  const id = rules.id === undefined ? null : header(headers, rules.id);
  let stamp = rules.timestamp === undefined ? null : header(headers, rules.timestamp);
  if (signature.length > HEADER_MAX) malformed(rules, `at most ${HEADER_MAX} characters long`);
  if (rules.form === "stamped") [stamp, signature] = takeApart(signature, rules);
  if (id !== null && !/^[!-~]{1,256}$/.test(id)) {
    fail("malformed_id", `${rules.id} must be 1 to 256 printable ASCII characters.`);
  }
  if (stamp !== null && !/^[0-9]{1,12}$/.test(stamp)) {
    fail("malformed_timestamp", "The timestamp must be whole seconds since 1970, in plain digits.");
  }

  const given = rules.form === "list" ? listed(signature, rules, keys) : [hex(signature, rules)];
  const prefix = { list: `${id}.${stamp}.`, stamped: `${stamp}.`, plain: "" }[rules.form];
  compare(given, keys, Buffer.concat([Buffer.from(prefix), body]), rules);
  const timestamp = stamp === null ? null : Number(stamp);
  if (timestamp !== null) checkTime(timestamp, Math.floor(now ?? Date.now() / 1000), tolerance);
  return { id, idField: rules.idField ?? null, timestamp };
}

function fail(reason, message) {
  throw new VerificationError(reason, message);
}

function malformed(rules, expected) {
  fail("malformed_signature", `${rules.signature} must be ${expected}.`);
}

function rulesOf(contract, brand) {
  const rules = RULES.get(contract);
  if (!rules) fail("misconfigured", `The contract must be one of ${CONTRACTS.join(", ")}.`);
  if (rules.brand === undefined) {
    if (brand != null) fail("misconfigured", `The header names of ${contract} have no brand in them.`);
    return rules;
  }
  const name = brand ?? rules.brand;
  if (typeof name !== "string" || !/^[A-Za-z0-9_-]{1,64}$/.test(name)) {
    fail("misconfigured", "The brand must be 1 to 64 characters out of A-Z a-z 0-9 _ -.");
  }
  const branded = (template) => template?.replace("{}", name.toLowerCase());
  return { ...rules, signature: branded(rules.signature), timestamp: branded(rules.timestamp), id: branded(rules.id) };
}

function keysOf(rules, secrets) {
  const given = typeof secrets === "string" ? [secrets] : secrets;
  if (!Array.isArray(given) || given.length === 0 || !given.every((secret) => typeof secret === "string")) {
    fail("misconfigured", "Give at least one secret, as text.");
  }
  return given.map(rules.key === "text" ? textKey : standardKey);
}

function textKey(secret) {
  const key = Buffer.from(secret);
  if (key.length < 16 || key.length > 512 || /[\x00-\x1f\x7f]/.test(secret)) {
    fail(
      "misconfigured",
      "A secret must be 16 to 512 bytes without control characters (is there a newline at its end?).",
    );
  }
  return { version: "v1", key };
}

function standardKey(secret) {
  const [, prefix, encoded] = /^(whsec_|whpk_)((?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?)$/.exec(secret) ?? [];
  const bytes = Buffer.from(encoded ?? "", "base64");
  if (prefix === "whsec_" && bytes.length >= 24 && bytes.length <= 64) return { version: "v1", key: bytes };
  if (prefix === "whpk_" && bytes.length === 32) {
    const jwk = { kty: "OKP", crv: "Ed25519", x: bytes.toString("base64url") };
    return { version: "v1a", key: createPublicKey({ key: jwk, format: "jwk" }) };
  }
  fail(
    "misconfigured",
    "A secret must be whsec_ and base64 of 24 to 64 bytes, or whpk_ and base64 of a 32-byte ed25519 public key.",
  );
}

function header(headers, name) {
  // Headers of fetch, Map and the like give pairs; request.headers of node:http is an object.
  const pairs = typeof headers?.[Symbol.iterator] === "function" ? headers : Object.entries(headers ?? {});
  const found = [];
  for (const [key, value] of pairs) {
    if (typeof key === "string" && key.toLowerCase() === name && value !== undefined) found.push(...[value].flat());
  }
  if (found.length > 1) fail("repeated_header", `The header ${name} came ${found.length} times; it must come once.`);
  if (typeof found[0] !== "string" || found[0] === "") fail("missing_header", `The header ${name} is missing or empty.`);
  return found[0];
}

function takeApart(value, rules) {
  const parts = value.split(",");
  if (parts.length !== 2 || !parts[0].startsWith("t=") || !parts[1].startsWith("v1=")) {
    malformed(rules, "t=SECONDS,v1=HEX, each once");
  }
  return [parts[0].slice(2), parts[1].slice(3)];
}

function hex(value, rules) {
  if (rules.form === "plain" && !value.startsWith("sha256=")) malformed(rules, "sha256= and 64 lower-case hex digits");
  const digits = rules.form === "plain" ? value.slice(7) : value;
  if (!/^[0-9a-f]{64}$/.test(digits)) malformed(rules, "a signature of 64 lower-case hex digits");
  return { version: "v1", text: digits };
}

const DIGITS = new Map([
  ["v1", /^[A-Za-z0-9+/]{43}=$/],
  ["v1a", /^[A-Za-z0-9+/]{86}==$/],
]);

// Returns the signatures that a given key can check. Unknown versions are left out. A malformed one is an error.
function listed(value, rules, keys) {
  const entries = value.split(" ").map((entry) => {
    const comma = entry.indexOf(",");
    const [version, text] = [entry.slice(0, Math.max(comma, 0)), entry.slice(comma + 1)];
    const digits = DIGITS.get(version) ?? /^[!-~]+$/;
    if (version === "" || !digits.test(text)) {
      malformed(rules, "VERSION,BASE64, or several of these with single spaces between them");
    }
    return { version, text };
  });
  const versions = new Set(keys.map((key) => key.version));
  const usable = entries.filter((entry) => versions.has(entry.version));
  if (usable.length === 0) {
    fail(
      "no_usable_signature",
      `${rules.signature} has no signature of the kind that these secrets can check (${[...versions].join(", ")}).`,
    );
  }
  return usable;
}

function compare(given, keys, signed, rules) {
  let matches = false;
  for (const { version, key } of keys) {
    const expected = version === "v1" && createHmac("sha256", key).update(signed).digest(rules.form === "list" ? "base64" : "hex");
    for (const signature of given.filter((signature) => signature.version === version)) {
      // All pairs are compared, each in constant time, so that the duration reveals nothing about a match.
      const isEqual = expected
        ? timingSafeEqual(Buffer.from(expected), Buffer.from(signature.text))
        : isSignedBy(key, signed, signature.text);
      matches = isEqual || matches;
    }
  }
  if (!matches) {
    fail(
      "signature_mismatch",
      "No signature was made with a secret given here: the secret is another one, the body is not the raw one, or somebody else sent this.",
    );
  }
}

function isSignedBy(publicKey, signed, text) {
  const bytes = Buffer.from(text, "base64");
  return bytes.toString("base64") === text && verifySignature(null, signed, publicKey, bytes);
}

function checkTime(timestamp, now, tolerance) {
  if (now - timestamp > tolerance) {
    fail(
      "timestamp_too_old",
      `The request is ${now - timestamp} s old, at most ${tolerance} s are allowed: sent again, or a clock is wrong.`,
    );
  }
  if (timestamp - now > tolerance) {
    fail(
      "timestamp_too_new",
      `The request is ${timestamp - now} s ahead of this clock, at most ${tolerance} s are allowed: a clock is wrong.`,
    );
  }
}
