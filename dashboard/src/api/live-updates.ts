// Live updates: server-sent events, read with `fetch` so that the key can be sent in a header.
// They only invalidate topics. While no stream is open, all views refetch every few seconds instead.
import { signal } from "@preact/signals";
import { sendRequest } from "./client";
import { type Topic, invalidate, invalidateAll } from "./invalidation";
import { SseParser } from "./sse-parser";

const POLL_EVERY_MS = 5000;
const RECONNECT_WAITS_MS = [500, 1000, 2000, 5000];
/** The server sends at least a comment every 15 seconds. */
const SILENCE_MS_MAX = 20_000;
/** Upper limit of the server's Retry-After. */
const RETRY_AFTER_MS_MAX = 60_000;
/** Responses of a server without a stream, or without one for this key. All other failures may be temporary. */
const NO_STREAM_STATUSES = [403, 404, 405];

/** `live`: changes arrive within a second. `polling`: views refetch every few seconds. `lost`: the stream broke and is being
 *  opened again; views poll meanwhile. */
export type StreamState = "live" | "polling" | "lost";
export const streamState = signal<StreamState>("polling");

const TOPICS: Record<string, readonly Topic[]> = {
  event: ["events", "deliveries", "stats"],
  // A failure may also create a notice.
  delivery: ["deliveries", "stats", "notices"],
  attempt: ["deliveries", "stats", "notices"],
  endpoint: ["endpoints", "notices"],
  replay: ["replays", "notices"],
};

/**
 * Follows the updates of one app, or of all, until the returned function is called. The stream is closed while the page is
 * hidden: a browser opens at most six connections to a server, and six tabs would leave none for requests.
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
    // Updates before the stream opened were missed.
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
/** The stream broke, or the server closed it, as it does when it stops. */
const BROKEN: StreamEnd = { retryAfterMs: 0 };

/** Reads the stream until it ends or is silent for too long. The connection is closed in every case. */
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

/** Parses Retry-After: seconds or a date, in milliseconds from now. Returns 0 for anything else. */
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
