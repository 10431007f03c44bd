// What happens in an app, as it happens: server-sent events read with `fetch`, so that the key travels in a header.
// They are hints only. Where the server has no stream, the views ask again every few seconds instead.
import { signal } from "@preact/signals";
import { talk } from "./client";
import { type Topic, hint, hintEverything } from "./hints";
import { EventReader } from "./sse";

const ASK_EVERY_MS = 5000;
const WAIT_MS = [500, 1000, 2000, 5000];
/** The server sends at least a comment every 15 seconds. */
const SILENCE_MS = 20_000;

/** `live`: told within a second; `asking`: by asking every few seconds; `lost`: the stream broke and is being opened again. */
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
  let failures = 0;
  while (!stop.aborted) {
    const outcome = await read(app, stop, () => (failures = 0)).catch(() => "broken" as const);
    if (stop.aborted) return;
    if (outcome === "absent") break;
    liveness.value = "lost";
    await pause(WAIT_MS[Math.min(failures++, WAIT_MS.length - 1)] ?? 5000, stop);
  }
  if (stop.aborted) return;
  liveness.value = "asking";
  const timer = setInterval(hintEverything, ASK_EVERY_MS);
  stop.addEventListener("abort", () => clearInterval(timer));
}

async function read(app: string | null, stop: AbortSignal, opened: () => void): Promise<"absent" | "ended"> {
  const path = app === null ? "/v1/stream" : `/v1/apps/${encodeURIComponent(app)}/stream`;
  const address = new URL(path, window.location.origin);
  const response = await talk(new Request(address, { headers: { accept: "text/event-stream" }, signal: stop }));
  if (!response.ok || response.body === null) return response.status < 500 ? "absent" : "ended";
  opened();
  if (liveness.value === "lost") hintEverything();
  liveness.value = "live";
  const events = new EventReader();
  const chunks = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await within(chunks.read(), SILENCE_MS);
    if (done) return "ended";
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
    const timer = setTimeout(resolve, ms);
    stop.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
