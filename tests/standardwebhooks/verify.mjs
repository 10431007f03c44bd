// Checks requests with the official npm library. Usage: node verify.mjs FOLDER, where FOLDER holds node_modules.
// Reads a JSON object {secret, headers, body} a line, body in base64; answers each with a line `ok` or `bad`.
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { createInterface } from "node:readline";

const require = createRequire(resolve(process.argv[2], "package.json"));
const { Webhook, WebhookVerificationError } = require("standardwebhooks");

for await (const line of createInterface({ input: process.stdin })) {
  const { secret, headers, body } = JSON.parse(line);
  try {
    new Webhook(secret).verify(Buffer.from(body, "base64"), headers);
    console.log("ok");
  } catch (error) {
    if (!(error instanceof WebhookVerificationError)) throw error;
    console.log("bad");
  }
}
