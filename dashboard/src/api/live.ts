// What happens in an app, as it happens: server-sent events read with `fetch`, so that the key travels in a header.
// They are hints only. For as long as no stream is open, the views ask again every few seconds instead.
import { signal } from "@preact/signals";
import { sendRequest } from "./client";
import { type Topic, hint, hintEverything } from "./hints";
import { EventReader } from "./sse";

const ASK_EVERY_MS = 5000;
const WAIT_MS = [500, 1000, 2000, 5000];
/** The server sends at least a comment every 15 seconds. */
const SILENCE_MS = 20_000;
/** Nobody is kept from a new stream for longer. */
const RETRY_AFTER_MS_MAX = 60_000;
/** Of a server that has no stream, or none for this key. Everything else may pass. */
const ABSENT = [403, 404, 405];

/** `live`: told within a second; `asking`: by asking every few seconds; `lost`: the stream broke and is being opened again,
 *  and the views ask meanwhile. */
export type Liveness = "live" | "asking" | "lost";
export const liveness = signal<Liveness>("asking");

const TOPICS: Record<string, readonly Topic[]> = {
  event: ["events", "deliveries", "stats"],
  // People are told of what comes of these, so there may be a notice too.
  delivery: ["deliveries", "stats", "notices"],
  attempt: ["deliveries", "stats", "notices"],
  endpoint: ["endpoints", "notices"],
  replay: ["replays", "notices"],
};

/**
 * Follows one app, or all of them; until the returned function is called. Not while the page is out of sight: a browser has
 * six connections for a server, and six open tabs would leave none to ask with.
 */
export function follow(app: string | null): () => void {
  let stop: AbortController | null = null;
  const end = () => {
    stop?.abort();
    stop = null;
  };
  const begin = () => {
    if (document.hidden || stop !== null) return;
    stop = new AbortController();
    void run(app, stop.signal);
  };
  const look = () => {
    if (document.hidden) return end();
    begin();
    hintEverything();
  };
  document.addEventListener("visibilitychange", look);
  begin();
  return () => {
    document.removeEventListener("visibilitychange", look);
    end();
  };
}

async function run(app: string | null, stop: AbortSignal): Promise<void> {
  let isOpen = false;
  let failures = 0;
  const opened = () => {
    isOpen = true;
    failures = 0;
    liveness.value = "live";
    // Whatever happened before was not told.
    hintEverything();
  };
  liveness.value = "asking";
  const timer = setInterval(() => isOpen || hintEverything(), ASK_EVERY_MS);
  stop.addEventListener("abort", () => clearInterval(timer));
  while (!stop.aborted) {
    const outcome = await read(app, stop, opened).catch(() => BROKEN);
    isOpen = false;
    if (stop.aborted) return;
    liveness.value = outcome === BROKEN ? "lost" : "asking";
    if (outcome === "absent") return;
    await pause(Math.max(WAIT_MS[Math.min(failures++, WAIT_MS.length - 1)] ?? 0, outcome.retryAfterMs), stop);
  }
}

type Outcome = "absent" | { retryAfterMs: number };
/** It broke, or ended, which servers do when they stop. */
const BROKEN: Outcome = { retryAfterMs: 0 };

/** Until it ends, or is silent for too long. Whatever comes of it, its connection is given back. */
async function read(app: string | null, stop: AbortSignal, opened: () => void): Promise<Outcome> {
  const path = app === null ? "/v1/stream" : `/v1/apps/${encodeURIComponent(app)}/stream`;
  const address = new URL(path, window.location.origin);
  const reading = new AbortController();
  const end = () => reading.abort();
  stop.addEventListener("abort", end, { signal: reading.signal });
  try {
    const request = new Request(address, { headers: { accept: "text/event-stream" }, signal: reading.signal });
    const response = await within(sendRequest(request), SILENCE_MS);
    if (!response.ok || response.body === null) return outcomeOf(response);
    opened();
    await readHints(response.body);
    return BROKEN;
  } finally {
    end();
  }
}

function outcomeOf(response: Response): Outcome {
  if (ABSENT.includes(response.status)) return "absent";
  const retryAfterMs = retryAfterMsOf(response.headers.get("retry-after"));
  return retryAfterMs > 0 || response.status === 429 ? { retryAfterMs } : BROKEN;
}

/** Seconds, or a date; nothing else is one. */
function retryAfterMsOf(header: string | null): number {
  const seconds = Number(header ?? 0);
  const ms = Number.isNaN(seconds) ? Date.parse(header ?? "") - Date.now() : seconds * 1000;
  return Number.isNaN(ms) ? 0 : Math.min(Math.max(ms, 0), RETRY_AFTER_MS_MAX);
}

async function readHints(body: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<void> {
  const events = new EventReader();
  const chunks = body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await within(chunks.read(), SILENCE_MS);
    if (done) return;
    for (const { name } of events.push(value)) {
      if (name === "lagged") hintEverything();
      else hint(...(TOPICS[name] ?? []));
    }
  }
}

function within<T>(promise: Promise<T>, ms: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("silence")), ms);
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

function pause(ms: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      stop.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    stop.addEventListener("abort", end);
  });
}
