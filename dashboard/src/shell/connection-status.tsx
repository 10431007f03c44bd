// Whether the page is up to date: an indicator in the top bar, and a banner below it when the connection is lost.
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
  // On a phone the top bar has no room for the indicator's text.
  return (
    <div class="connection-banner phone-only" role="status">
      Live updates broke off and are being opened again. Meanwhile this page asks every five seconds.
    </div>
  );
}
