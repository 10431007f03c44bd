// bastionary's rule, in Node.js.
import { createHmac, timingSafeEqual } from "node:crypto";
import { serve } from "./serve.mjs";

serve((headers, rawBody, secret) => {
  const header = headers["x-bastionary-signature"];
  const [, timestamp, signature] = /^t=(\d+),v1=([0-9a-f]+)$/.exec(header) ?? [];
  if (!signature) return "no signature";
  if (Math.abs(Date.now() / 1000 - Number(timestamp)) > 300) return "too old";
  const expected = createHmac("sha256", secret).update(`${timestamp}.`).update(rawBody).digest();
  const received = Buffer.from(signature, "hex");
  return received.length === expected.length && timingSafeEqual(received, expected) ? null : "wrong signature";
});
