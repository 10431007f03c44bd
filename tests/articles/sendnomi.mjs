// sendnomi's rule, in Node.js: the headers of Standard Webhooks, but the secret as it is, `whsec_` included.
import { createHmac, timingSafeEqual } from "node:crypto";
import { serve } from "./serve.mjs";

serve((headers, rawBody, secret) => {
  const id = headers["webhook-id"];
  const timestamp = headers["webhook-timestamp"];
  if (Math.abs(Math.floor(Date.now() / 1000) - Number(timestamp)) > 5 * 60) return "too old";
  const signature = createHmac("sha256", secret).update(`${id}.${timestamp}.${rawBody}`).digest("base64");
  const expected = Buffer.from(`v1,${signature}`);
  const received = Buffer.from(headers["webhook-signature"] ?? "");
  return received.length === expected.length && timingSafeEqual(received, expected) ? null : "wrong signature";
});
