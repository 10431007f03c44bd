// What happens in an app, as it happens: server-sent events read with `fetch`, so that the key travels in a header.
// They are hints only. For as long as no stream is open, the views ask again every few seconds instead.
import { signal } from "@preact/signals";
import { sendRequest } from "./client";
import { type Topic, invalidate, invalidateAll } from "./invalidation";
import { SseParser } from "./sse-parser";

const POLL_EVERY_MS = 5000;
const RECONNECT_WAITS_MS = [500, 1000, 2000, 5000];
/** The server sends at least a comment every 15 seconds. */
const SILENCE_MS_MAX = 20_000;
/** Nobody is kept from a new stream for longer. */
const RETRY_AFTER_MS_MAX = 60_000;
/** Of a server that has no stream, or none for this key. Everything else may pass. */
const NO_STREAM_STATUSES = [403, 404, 405];

/** `live`: told within a second; `polling`: by asking every few seconds; `lost`: the stream broke and is being opened again,
 *  and the views ask meanwhile. */
export type StreamState = "live" | "polling" | "lost";
export const streamState = signal<StreamState>("polling");

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
export function followUpdates(app: string | null): () => void {
  let stop: AbortController | null = null;
  const disconnect = () => {
    stop?.abort();
    stop = null;
  };
  const connect = () => {
    if (document.hidden || stop !== null) return;
    stop = new AbortController();
    void runStream(app, stop.signal);
  };
  const onVisibilityChange = () => {
    if (document.hidden) return disconnect();
    connect();
    invalidateAll();
  };
  document.addEventListener("visibilitychange", onVisibilityChange);
  connect();
  return () => {
    document.removeEventListener("visibilitychange", onVisibilityChange);
    disconnect();
  };
}

async function runStream(app: string | null, stop: AbortSignal): Promise<void> {
  let isOpen = false;
  let failures = 0;
  const onOpen = () => {
    isOpen = true;
    failures = 0;
    streamState.value = "live";
    // Whatever happened before was not told.
    invalidateAll();
  };
  streamState.value = "polling";
  const timer = setInterval(() => isOpen || invalidateAll(), POLL_EVERY_MS);
  stop.addEventListener("abort", () => clearInterval(timer));
  while (!stop.aborted) {
    const streamEnd = await readStream(app, stop, onOpen).catch(() => BROKEN);
    isOpen = false;
    if (stop.aborted) return;
    streamState.value = streamEnd === BROKEN ? "lost" : "polling";
    if (streamEnd === "absent") return;
    await pause(
      Math.max(RECONNECT_WAITS_MS[Math.min(failures++, RECONNECT_WAITS_MS.length - 1)] ?? 0, streamEnd.retryAfterMs),
      stop,
    );
  }
}

type StreamEnd = "absent" | { retryAfterMs: number };
/** It broke, or ended, which servers do when they stop. */
const BROKEN: StreamEnd = { retryAfterMs: 0 };

/** Until it ends, or is silent for too long. Whatever comes of it, its connection is given back. */
async function readStream(app: string | null, stop: AbortSignal, onOpen: () => void): Promise<StreamEnd> {
  const path = app === null ? "/v1/stream" : `/v1/apps/${encodeURIComponent(app)}/stream`;
  const address = new URL(path, window.location.origin);
  const streamAbort = new AbortController();
  const disconnect = () => streamAbort.abort();
  stop.addEventListener("abort", disconnect, { signal: streamAbort.signal });
  try {
    const request = new Request(address, { headers: { accept: "text/event-stream" }, signal: streamAbort.signal });
    const response = await withTimeout(sendRequest(request), SILENCE_MS_MAX);
    if (!response.ok || response.body === null) return streamEndOf(response);
    onOpen();
    await publishUpdates(response.body);
    return BROKEN;
  } finally {
    disconnect();
  }
}

function streamEndOf(response: Response): StreamEnd {
  if (NO_STREAM_STATUSES.includes(response.status)) return "absent";
  const retryAfterMs = retryAfterMsOf(response.headers.get("retry-after"));
  return retryAfterMs > 0 || response.status === 429 ? { retryAfterMs } : BROKEN;
}

/** Seconds, or a date; nothing else is one. */
function retryAfterMsOf(header: string | null): number {
  const seconds = Number(header ?? 0);
  const ms = Number.isNaN(seconds) ? Date.parse(header ?? "") - Date.now() : seconds * 1000;
  return Number.isNaN(ms) ? 0 : Math.min(Math.max(ms, 0), RETRY_AFTER_MS_MAX);
}

async function publishUpdates(body: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<void> {
  const events = new SseParser();
  const chunks = body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await withTimeout(chunks.read(), SILENCE_MS_MAX);
    if (done) return;
    for (const { name } of events.push(value)) {
      if (name === "lagged") invalidateAll();
      else invalidate(...(TOPICS[name] ?? []));
    }
  }
}

function withTimeout<T>(promise: Promise<T>, ms: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("silence")), ms);
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

function pause(ms: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const finish = () => {
      clearTimeout(timer);
      stop.removeEventListener("abort", finish);
      resolve();
    };
    const timer = setTimeout(finish, ms);
    stop.addEventListener("abort", finish);
  });
}
