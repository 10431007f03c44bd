// The fixture of the journeys: the real binary with its own store and pages, a receiver with configurable answers, and a
// browser.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
export const ADMIN_KEY = "admin-key-of-the-journeys-0123456789abcdef";

/** Starts everything. `settings` are environment variables of the server. */
export async function startFixture(settings = {}) {
  const cleanups = [];
  const close = async () => {
    for (const each of cleanups.reverse()) await each();
  };
  try {
    const process = await startServer(cleanups, settings);
    const server = process.url;
    const receiver = await startReceiver(cleanups);
    const browser = await chromium.launch({
      executablePath: CHROMIUM,
      args: ["--no-sandbox"],
    });
    cleanups.push(() => browser.close());
    const api = (method, path, body, key = ADMIN_KEY) => callApi(server, method, path, body, key);
    return { server, process, receiver, browser, api, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Returns a port that was free a moment ago. */
function freePort() {
  return new Promise((resolve) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

async function startServer(cleanups, settings) {
  const binary = process.env.POSTHASTE_BINARY;
  if (!binary || !existsSync(binary)) throw new Error("POSTHASTE_BINARY must be the path of a built posthaste");
  const folder = mkdtempSync(join(tmpdir(), "journey-"));
  const port = await freePort();
  const args = ["serve", "--listen", `127.0.0.1:${port}`, "--store", `sqlite:${folder}/posthaste.db`];
  const env = {
    PATH: process.env.PATH,
    POSTHASTE_ADMIN_KEY: ADMIN_KEY,
    POSTHASTE_ALLOW_ADDRESSES: "127.0.0.0/8",
    POSTHASTE_HTTPS_ONLY: "false",
    POSTHASTE_LOG_LEVEL: "error",
    ...settings,
  };
  const url = `http://127.0.0.1:${port}`;
  let child = null;
  const stop = () => child.kill("SIGKILL");
  const start = async () => {
    child = spawn(binary, args, { env, stdio: ["ignore", "ignore", "inherit"] });
    await waitUntil("the server is ready", async () => (await fetch(`${url}/readyz`).catch(() => null))?.ok);
  };
  cleanups.push(() => {
    stop();
    rmSync(folder, { recursive: true });
  });
  await start();
  return { url, stop, start };
}

/** Starts `posthaste dev` in an empty folder, and returns the address that it prints. */
export async function startDev() {
  const folder = mkdtempSync(join(tmpdir(), "journey-dev-"));
  const listen = `127.0.0.1:${await freePort()}`;
  const child = spawn(process.env.POSTHASTE_BINARY, ["dev", "--listen", listen], {
    cwd: folder,
    env: { PATH: process.env.PATH },
    stdio: ["ignore", "pipe", "ignore"],
  });
  const close = () => {
    child.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  };
  let output = "";
  child.stdout.on("data", (chunk) => (output += chunk));
  const printed = () => /https?:\/\/\S+\/#key=\S+/.exec(output)?.[0];
  await waitUntil("it prints its link", () => printed() !== undefined).catch((error) => {
    close();
    throw error;
  });
  return { address: printed(), close };
}

async function callApi(server, method, path, body, key) {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const signal = AbortSignal.timeout(10_000);
  const response = await fetch(server + path, {
    method,
    headers,
    signal,
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return text === "" ? null : JSON.parse(text);
}

/** Starts a receiver. It answers what `answers` has for a path, otherwise 200. */
async function startReceiver(cleanups) {
  const answers = new Map();
  const received = [];
  const http = createServer((incoming, outgoing) => {
    const chunks = [];
    incoming.on("data", (chunk) => chunks.push(chunk));
    incoming.on("end", () => {
      received.push({ path: incoming.url, headers: incoming.headers, body: Buffer.concat(chunks).toString() });
      const { status = 200, headers = {}, body = "ok" } = answers.get(incoming.url.split("?")[0]) ?? {};
      outgoing.writeHead(status, headers).end(body);
    });
  });
  await new Promise((resolve) => http.listen(0, "127.0.0.1", resolve));
  cleanups.push(() => {
    http.closeAllConnections();
    http.close();
  });
  return { url: `http://127.0.0.1:${http.address().port}`, answers, received };
}

/** Waits for a condition, by default for at most ten seconds. */
export async function waitUntil(what, isTrue, forMs = 10_000) {
  for (const end = Date.now() + forMs; Date.now() < end;) {
    if (await isTrue()) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`not so in time: ${what}`);
}

/** Opens a signed-in page. Records violations: errors, dialogs, policy violations, requests to other hosts. */
export async function signedIn(fixture, path = "/", { key = ADMIN_KEY, ...options } = {}) {
  const context = await fixture.browser.newContext({ viewport: { width: 1280, height: 860 }, ...options });
  const page = await context.newPage();
  const violations = [];
  page.on("pageerror", (error) => violations.push(`error: ${error.message}`));
  page.on("dialog", (dialog) => {
    violations.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("console", (message) => {
    if (/Content.Security.Policy|Refused to/i.test(message.text())) violations.push(`policy: ${message.text()}`);
  });
  page.on("request", (each) => {
    if (new URL(each.url()).origin !== fixture.server) violations.push(`request: ${each.url()}`);
  });
  page.setDefaultTimeout(10_000);
  await page.goto(`${fixture.server}${path}#key=${encodeURIComponent(key)}`);
  await page.locator(".shell main h1").waitFor();
  return { page, violations, close: () => context.close() };
}

/** Follows a link inside the application, because a reload forgets the key. */
export async function visit(page, address, base = "") {
  // In the browser's spelling.
  const { pathname, search } = new URL(address, page.url());
  const path = pathname + search;
  await page.evaluate((to) => {
    const link = document.createElement("a");
    link.href = to;
    document.body.append(link);
    link.click();
    link.remove();
  }, path.slice(base.length));
  await page.waitForFunction((to) => location.pathname + location.search === to, path);
  await page.locator(".shell main h1").waitFor();
}
