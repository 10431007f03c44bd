// Tracks whether the server can be reached. While it cannot, /livez is polled every two seconds.
import { signal } from "@preact/signals";
import { invalidateAll } from "./invalidation";

const PROBE_EVERY_MS = 2000;

export const isConnected = signal(true);
let probeTimer: ReturnType<typeof setInterval> | null = null;

export function markDisconnected(): void {
  isConnected.value = false;
  probeTimer ??= setInterval(() => void probeServer(), PROBE_EVERY_MS);
}

export function markConnected(): void {
  if (probeTimer !== null) clearInterval(probeTimer);
  probeTimer = null;
  if (isConnected.value) return;
  isConnected.value = true;
  // Changes during the outage were missed.
  invalidateAll();
}

/** The browser reports a lost network at once; an open stream would only stay silent for a while. */
window.addEventListener("offline", markDisconnected);
window.addEventListener("online", () => void probeServer());

async function probeServer(): Promise<void> {
  const isUp = await fetch("/livez").then(
    (response) => response.ok,
    () => false,
  );
  if (isUp) markConnected();
}
