// What a journey needs: the real binary with a store of its own, the built pages in front of it with the headers that the
// binary must send, a receiver that answers as told, and a browser.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, request } from "node:http";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { chromium } from "playwright-core";

export const ADMIN_KEY = "admin-key-of-the-journeys-0123456789abcdef";
const DIST = new URL("../dist/", import.meta.url);
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };
export const POLICY = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

export async function stage() {
  const closers = [];
  const close = async () => {
    for (const each of closers.reverse()) await each();
  };
  try {
    const server = await startServer(closers);
    const receiver = await startReceiver(closers);
    const pages = await servePages(server, closers);
    const browser = await chromium.launch({
      executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
      args: ["--no-sandbox"],
    });
    closers.push(() => browser.close());
    const api = (method, path, body, key = ADMIN_KEY) => askApi(server, method, path, body, key);
    return { server, receiver, pages, browser, api, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** A port that was free a moment ago. */
function freePort() {
  return new Promise((resolve) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

async function startServer(closers) {
  const binary = process.env.POSTHASTE_BINARY;
  if (!binary || !existsSync(binary)) throw new Error("POSTHASTE_BINARY must be the path of a built posthaste");
  if (!existsSync(new URL("index.html", DIST))) throw new Error("build the pages first: npm run build in dashboard/");
  const folder = mkdtempSync(join(tmpdir(), "journey-"));
  const port = await freePort();
  const args = ["serve", "--listen", `127.0.0.1:${port}`, "--store", `sqlite:${folder}/posthaste.db`];
  const env = {
    PATH: process.env.PATH,
    POSTHASTE_ADMIN_KEY: ADMIN_KEY,
    POSTHASTE_ALLOW_ADDRESSES: "127.0.0.0/8",
    POSTHASTE_HTTPS_ONLY: "false",
    POSTHASTE_LOG_LEVEL: "error",
  };
  const child = spawn(binary, args, { env, stdio: ["ignore", "ignore", "inherit"] });
  closers.push(async () => {
    child.kill("SIGKILL");
    rmSync(folder, { recursive: true });
  });
  const url = `http://127.0.0.1:${port}`;
  await until("the server is ready", async () => (await fetch(`${url}/readyz`).catch(() => null))?.ok);
  return url;
}

async function askApi(server, method, path, body, key) {
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

/** Answers what `answers` says for a path, else 200. */
async function startReceiver(closers) {
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
  closers.push(() => {
    http.closeAllConnections();
    http.close();
  });
  return { url: `http://127.0.0.1:${http.address().port}`, answers, received };
}

/** The built pages, and the API behind the same origin. `streams` are open responses of /v1/apps/{app}/stream, while it is on. */
async function servePages(server, closers) {
  const streams = new Set();
  const state = { hasStream: false, streams };
  const http = createServer((incoming, outgoing) => {
    if (state.hasStream && /^\/v1\/apps\/[^/]+\/stream$/.test(incoming.url)) {
      outgoing.writeHead(200, { "content-type": "text/event-stream" }).write(": hello\n\n");
      streams.add(outgoing);
      outgoing.on("close", () => streams.delete(outgoing));
    } else if (/^\/(v1\/|livez|readyz)/.test(incoming.url)) {
      const onward = request(server + incoming.url, { method: incoming.method, headers: incoming.headers }, (answer) => {
        outgoing.writeHead(answer.statusCode, answer.headers);
        answer.pipe(outgoing);
      });
      onward.on("error", () => outgoing.destroy());
      // A stream that nobody reads any more must not stay open behind us.
      outgoing.on("close", () => onward.destroy());
      incoming.pipe(onward);
    } else sendFile(incoming.url, outgoing);
  });
  await new Promise((resolve) => http.listen(0, "127.0.0.1", resolve));
  closers.push(() => {
    http.closeAllConnections();
    http.close();
  });
  return Object.assign(state, { url: `http://127.0.0.1:${http.address().port}` });
}

function sendFile(url, outgoing) {
  const path = new URL(url, "http://pages").pathname;
  const isAsset = /^\/(assets\/[\w.-]+|icon\.svg)$/.test(path);
  const file = new URL(isAsset ? `.${path}` : "index.html", DIST);
  const headers = {
    "content-type": TYPES[extname(file.pathname)] ?? "application/octet-stream",
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
  };
  if (existsSync(file)) outgoing.writeHead(200, headers).end(readFileSync(file));
  else outgoing.writeHead(404).end();
}

/** Waits for a condition, for at most ten seconds. */
export async function until(what, isSo, forMs = 10_000) {
  for (const end = Date.now() + forMs; Date.now() < end;) {
    if (await isSo()) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`not so in time: ${what}`);
}

/** A page that is signed in and tells of everything it should not do: errors, dialogs, requests to other hosts. */
export async function signedIn(on, path = "/", { key = ADMIN_KEY, isIn = true, ...options } = {}) {
  const context = await on.browser.newContext({ viewport: { width: 1280, height: 860 }, ...options });
  const page = await context.newPage();
  const wrongs = [];
  page.on("pageerror", (error) => wrongs.push(`error: ${error.message}`));
  page.on("dialog", (dialog) => {
    wrongs.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("console", (message) => {
    if (/Content.Security.Policy|Refused to/i.test(message.text())) wrongs.push(`policy: ${message.text()}`);
  });
  page.on("request", (each) => {
    if (new URL(each.url()).origin !== on.pages.url) wrongs.push(`request: ${each.url()}`);
  });
  page.setDefaultTimeout(10_000);
  await page.goto(`${on.pages.url}${path}#key=${encodeURIComponent(key)}`);
  await page.locator(isIn ? ".shell main h1" : ".sign-in h1").waitFor();
  return { page, wrongs, close: () => context.close() };
}

/** Follows a link inside the application, because a reload forgets the key. */
export async function visit(page, path, base = "") {
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
