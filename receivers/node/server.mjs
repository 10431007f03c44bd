// A complete receiver:  WEBHOOK_SECRET=whsec_… node server.mjs
//
// Settings, all from the environment: WEBHOOK_SECRET, WEBHOOK_SECRET_OLD (accepted too while you change over), WEBHOOK_CONTRACT
// (standard), WEBHOOK_BRAND, PORT (8000; 0 takes a free one), DATA (the folder for what was received, ./received).
//
// Answers: 2xx for a request that was handled or is known already, 4xx for one that can never be accepted, 5xx to get it again.
import { createHash, randomUUID } from "node:crypto";
import { constants } from "node:fs";
import { access, link, mkdir, open, unlink } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { VerificationError, verify } from "./posthaste-webhooks.mjs";

const { WEBHOOK_CONTRACT: contract = "standard", WEBHOOK_BRAND: brand, PORT = "8000", DATA = "received" } = process.env;
const secrets = [process.env.WEBHOOK_SECRET, process.env.WEBHOOK_SECRET_OLD].filter(Boolean);
const BODY_BYTES_MAX = 1024 * 1024;

// Stores an event once. Returns false if it is stored already.
//
// Node.js has no database, so a file replaces the row: its name is the unique key, and `link` creates it completely or not at
// all, and only if the name is free. With a database this is
//     CREATE TABLE received (id TEXT PRIMARY KEY, body BYTEA NOT NULL);
//     INSERT INTO received (id, body) VALUES ($1, $2) ON CONFLICT DO NOTHING;   -- no row inserted: known already
// in one transaction with the work, if that is quick. Otherwise a worker of your own processes the received events, retries
// failures, and stores those that keep failing: your own dead letters.
async function keep(key, body) {
  const row = join(DATA, createHash("sha256").update(key).digest("hex"));
  const draft = `${row}.${randomUUID()}`;
  const file = await open(draft, "wx");
  try {
    await file.writeFile(body);
    await file.sync();
    await link(draft, row);
    return true;
  } catch (error) {
    if (error.code === "EEXIST") return false;
    throw error;
  } finally {
    await file.close();
    await unlink(draft);
  }
}

async function receive(request) {
  const body = await read(request);
  if (body === null) return [413, `at most ${BODY_BYTES_MAX} bytes`];
  let verified;
  try {
    verified = verify(contract, request.headersDistinct, body, secrets, { brand });
  } catch (error) {
    if (!(error instanceof VerificationError)) throw error;
    return [error.reason === "misconfigured" ? 500 : 400, `${error.reason}: ${error.message}`];
  }
  // The body is parsed only after verification.
  let key;
  try {
    const event = JSON.parse(body.toString("utf8"));
    key = verified.id ?? event[verified.idField];
    if (typeof key !== "string" || Array.isArray(event) || typeof event !== "object") throw new TypeError();
  } catch {
    return [422, "not an event that this receiver understands"];
  }
  return [200, (await keep(key, body)) ? "received" : "known already"];
}

// Returns the raw bytes, or null if there are too many.
async function read(request) {
  const chunks = [];
  let bytes = 0;
  for await (const chunk of request) {
    bytes += chunk.length;
    if (bytes > BODY_BYTES_MAX) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

async function route(request) {
  if (request.method === "POST" && request.url === "/webhooks") return receive(request);
  if (request.method !== "GET" || request.url !== "/healthz") return [404, "POST to /webhooks"];
  try {
    await access(DATA, constants.W_OK);
  } catch (error) {
    return [503, `cannot write: ${error.code}`];
  }
  return [200, "healthy"];
}

try {
  verify(contract, {}, Buffer.alloc(0), secrets, { brand });
} catch (error) {
  if (error.reason === "misconfigured") {
    console.error(`WEBHOOK_CONTRACT, WEBHOOK_BRAND or WEBHOOK_SECRET: ${error.message}`);
    process.exit(1);
  }
}
await mkdir(DATA, { recursive: true });
const server = createServer({ requestTimeout: 10_000 }, async (request, response) => {
  let answer;
  try {
    answer = await route(request);
  } catch (error) {
    // Any other error is on this side, so the sender should retry.
    console.error(error);
    answer = [500, "trouble here, please send it again"];
  }
  const [status, text] = answer;
  // If the body was not read completely, the connection cannot be reused for another request.
  if (!request.complete) response.setHeader("connection", "close");
  response.writeHead(status, { "content-type": "text/plain; charset=utf-8" }).end(text);
});
server.listen(Number(PORT), "127.0.0.1", () => console.log(`listening on http://127.0.0.1:${server.address().port}`));
