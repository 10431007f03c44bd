// Invalidation by topic: data of a topic may have changed, so views that show it refetch, at a limited rate.

export type Topic = "apps" | "endpoints" | "events" | "deliveries" | "replays" | "notices" | "keys" | "stats";

type Listener = { topics: readonly Topic[]; refetch: () => void };
const listeners = new Set<Listener>();

export function invalidate(...topics: Topic[]): void {
  for (const listener of [...listeners]) {
    if (listener.topics.some((topic) => topics.includes(topic))) listener.refetch();
  }
}

export function invalidateAll(): void {
  for (const listener of [...listeners]) listener.refetch();
}

/** The server rolls up statistics once a second. An earlier refetch would return the old numbers. */
const STATS_DELAY_MS = 1500;

/** Calls `refetch` after one of the topics was invalidated, at most once per `pauseMs`. Waits while the page is hidden. */
export function onInvalidate(topics: readonly Topic[], refetch: () => void, pauseMs = 500): () => void {
  let timer: ReturnType<typeof setTimeout> | null = null;
  let lastAt = 0;
  let isMissed = false;
  const delayMsMin = topics.includes("stats") ? STATS_DELAY_MS : 0;
  const refetchNow = () => {
    timer = null;
    if (document.hidden) {
      isMissed = true;
      return;
    }
    lastAt = Date.now();
    refetch();
  };
  const listener = {
    topics,
    refetch: () => {
      timer ??= setTimeout(refetchNow, Math.max(delayMsMin, lastAt + pauseMs - Date.now()));
    },
  };
  const refetchIfMissed = () => {
    if (document.hidden || !isMissed) return;
    isMissed = false;
    listener.refetch();
  };
  listeners.add(listener);
  document.addEventListener("visibilitychange", refetchIfMissed);
  return () => {
    listeners.delete(listener);
    document.removeEventListener("visibilitychange", refetchIfMissed);
    if (timer !== null) clearTimeout(timer);
  };
}
