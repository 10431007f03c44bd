// Whether the server can be reached. While it cannot, one quiet question every two seconds finds out when it is back.
import { signal } from "@preact/signals";
import { hintEverything } from "./hints";

const ASK_EVERY_MS = 2000;

export const isConnected = signal(true);
let asking: ReturnType<typeof setInterval> | null = null;

export function connectionIsLost(): void {
  isConnected.value = false;
  asking ??= setInterval(() => void lookAgain(), ASK_EVERY_MS);
}

export function connectionIsUp(): void {
  if (asking !== null) clearInterval(asking);
  asking = null;
  if (isConnected.value) return;
  isConnected.value = true;
  // Whatever happened meanwhile was missed.
  hintEverything();
}

/** The browser knows at once when a cable is pulled; an open stream would stay silent for a while. */
window.addEventListener("offline", connectionIsLost);
window.addEventListener("online", () => void lookAgain());

async function lookAgain(): Promise<void> {
  const answered = await fetch("/livez").then(
    (response) => response.ok,
    () => false,
  );
  if (answered) connectionIsUp();
}
