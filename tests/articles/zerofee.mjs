// zerofee's rule, in Node.js.
import { createHmac, timingSafeEqual } from "node:crypto";
import { serve } from "./serve.mjs";

const TOLERANCE_SECONDS = 300;

serve((headers, rawBody, secret) => {
  const parts = Object.fromEntries(headers["x-zerofee-signature"].split(",").map((part) => part.split("=")));
  if (Math.abs(Date.now() / 1000 - Number(parts.t)) > TOLERANCE_SECONDS) return "too old";
  const expected = createHmac("sha256", secret).update(`${parts.t}.${rawBody}`).digest("hex");
  const [a, b] = [Buffer.from(expected), Buffer.from(parts.v1)];
  return a.length === b.length && timingSafeEqual(a, b) ? null : "wrong signature";
});
