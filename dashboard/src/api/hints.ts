// Hints: something of this kind may have changed. Views that show such things ask again, at most so often.

export type Topic = "apps" | "endpoints" | "events" | "deliveries" | "replays" | "notices" | "keys" | "stats";

type Listener = { topics: readonly Topic[]; tell: () => void };
const listeners = new Set<Listener>();

export function hint(...topics: Topic[]): void {
  for (const listener of [...listeners]) {
    if (listener.topics.some((topic) => topics.includes(topic))) listener.tell();
  }
}

export function hintEverything(): void {
  for (const listener of [...listeners]) listener.tell();
}

/** What is counted is rolled up once a second: asked sooner it would say nothing new. */
const COUNTED_AFTER_MS = 1500;

/** Calls `tell` after hints of these topics, at most once in `pauseMs` and not while the page is out of sight. */
export function onHints(topics: readonly Topic[], tell: () => void, pauseMs = 500): () => void {
  let timer: ReturnType<typeof setTimeout> | null = null;
  let lastAt = 0;
  let isMissed = false;
  const soonestMs = topics.includes("stats") ? COUNTED_AFTER_MS : 0;
  const now = () => {
    timer = null;
    if (document.hidden) {
      isMissed = true;
      return;
    }
    lastAt = Date.now();
    tell();
  };
  const listener = {
    topics,
    tell: () => {
      timer ??= setTimeout(now, Math.max(soonestMs, lastAt + pauseMs - Date.now()));
    },
  };
  const seen = () => {
    if (document.hidden || !isMissed) return;
    isMissed = false;
    listener.tell();
  };
  listeners.add(listener);
  document.addEventListener("visibilitychange", seen);
  return () => {
    listeners.delete(listener);
    document.removeEventListener("visibilitychange", seen);
    if (timer !== null) clearTimeout(timer);
  };
}
