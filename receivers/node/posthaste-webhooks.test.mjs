// node --test receivers/node
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as kit from "./posthaste-webhooks.mjs";

const { CONTRACTS, REASONS, VerificationError, verify } = kit;
const VECTORS = JSON.parse(readFileSync(new URL("../vectors.json", import.meta.url), "utf8")).cases;
const SECRET = `whsec_${Buffer.alloc(32, "k").toString("base64")}`;

function reasonOf(call) {
  try {
    call();
  } catch (error) {
    assert(error instanceof VerificationError, String(error));
    assert(REASONS.includes(error.reason) && error.message.length > 20, error.message);
    return error.reason;
  }
  return "ok";
}

function signedNow(body, at = Math.floor(Date.now() / 1000)) {
  const digest = createHmac("sha256", Buffer.alloc(32, "k")).update(`id.${at}.`).update(body).digest("base64");
  return { "Webhook-Id": "id", "Webhook-Timestamp": String(at), "Webhook-Signature": `v1,${digest}` };
}

test("every vector has the expected result", () => {
  for (const vector of VECTORS) {
    const { contract, headers, body, secrets, brand, now, tolerance } = vector;
    let verified;
    const verdict = reasonOf(() => {
      verified = verify(contract, headers, Buffer.from(body, "base64"), secrets, { brand, now, tolerance });
    });
    assert.equal(verdict, vector.expect, vector.name);
    if (verdict === "ok") {
      const { id, idField, timestamp } = verified;
      assert.deepEqual({ id, id_field: idField, timestamp }, vector.verified, vector.name);
    }
  }
  console.log(`ran ${VECTORS.length} vectors`);
});

test("every contract and every reason has a vector", () => {
  assert.deepEqual(new Set(VECTORS.map((vector) => vector.contract)), new Set(CONTRACTS));
  assert.deepEqual(new Set(VECTORS.map((vector) => vector.expect)), new Set(["ok", ...REASONS]));
});

test("without a time the clock is used", () => {
  const body = Buffer.from("{}");
  assert.equal(verify("standard", signedNow(body), body, SECRET).id, "id");
  const old = signedNow(body, Math.floor(Date.now() / 1000) - 400);
  assert.equal(reasonOf(() => verify("standard", old, body, SECRET)), "timestamp_too_old");
});

test("headers may be an object, lists, Headers or a Map", () => {
  const body = Buffer.from("{}");
  const plain = signedNow(body);
  const listed = Object.fromEntries(Object.entries(plain).map(([name, value]) => [name, [value]]));
  for (const headers of [plain, listed, new Headers(plain), new Map(Object.entries(plain))]) {
    assert.equal(verify("standard", headers, body, [SECRET]).id, "id");
  }
});

test("a wrong call is rejected with a reason", () => {
  const body = Buffer.from("{}");
  const headers = signedNow(body);
  for (const call of [
    () => verify("no such contract", headers, body, SECRET),
    () => verify("__proto__", headers, body, SECRET),
    () => verify("standard", headers, "{}", SECRET),
    () => verify("standard", headers, {}, SECRET),
    () => verify("standard", headers, body, undefined),
    () => verify("standard", headers, body, [null]),
    () => verify("standard", headers, body, SECRET, { tolerance: -1 }),
    () => verify("standard", headers, body, SECRET, { tolerance: Number.NaN }),
    () => verify("zerofee", headers, body, SECRET, { brand: 7 }),
  ]) {
    assert.equal(reasonOf(call), "misconfigured", String(call));
  }
  assert.equal(reasonOf(() => verify("standard", undefined, body, SECRET)), "missing_header");
});

test("no message repeats a secret", () => {
  for (const contract of CONTRACTS) {
    try {
      verify(contract, {}, Buffer.alloc(0), [`whsec_marker${"x".repeat(40)}`]);
      assert.fail();
    } catch (error) {
      assert(error instanceof VerificationError && !error.message.includes("marker"));
    }
  }
});

test("the declarations match the exports", () => {
  const declared = readFileSync(new URL("./posthaste-webhooks.d.mts", import.meta.url), "utf8");
  const exported = [...declared.matchAll(/^export (?:class|const|function) (\w+)/gm)].map((match) => match[1]);
  assert.deepEqual(exported.sort(), Object.keys(kit).sort());
  for (const word of [...CONTRACTS, ...REASONS]) assert(declared.includes(`"${word}"`), word);
});
