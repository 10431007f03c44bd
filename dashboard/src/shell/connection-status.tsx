// Whether what is shown is up to date: a word in the head of every page, and a line under it when it is not.
import { isConnected } from "../api/connection";
import { streamState } from "../api/live-updates";

export function ConnectionIndicator() {
  if (!isConnected.value || streamState.value === "lost") {
    return (
      <span class="live is-lost" title="The connection for live updates broke; it is being opened again.">
        <span>Disconnected</span>
      </span>
    );
  }
  const isLive = streamState.value === "live";
  return (
    <span
      class={isLive ? "live is-live" : "live"}
      title={isLive ? "Changes appear as they happen." : "This page asks for changes every five seconds."}
    >
      <span>{isLive ? "Live" : "Every 5 s"}</span>
    </span>
  );
}

export function ConnectionBanner() {
  if (!isConnected.value) {
    return (
      <div class="connection-banner" role="alert">
        The server cannot be reached. What you see may be old; it is asked again every two seconds.
      </div>
    );
  }
  if (streamState.value !== "lost") return null;
  // There is no room for a word in a phone's head.
  return (
    <div class="connection-banner phone-only" role="status">
      Live updates broke off and are being opened again. Meanwhile this page asks every five seconds.
    </div>
  );
}
