// The tone and meaning of states and reasons.

export type Tone = "good" | "bad" | "warn" | "busy" | "held" | "quiet";

export const DELIVERY_STATES = ["pending", "in_flight", "retrying", "held", "delivered", "dead", "cancelled", "expired"] as const;

const STATE_TONES: Record<string, Tone> = {
  pending: "quiet",
  in_flight: "busy",
  retrying: "warn",
  held: "held",
  delivered: "good",
  dead: "bad",
  cancelled: "quiet",
  expired: "quiet",
  active: "good",
  healthy: "good",
  degraded: "warn",
  failing: "bad",
  disabled: "held",
  running: "busy",
  paused: "held",
  finished: "good",
  waiting: "quiet",
  interrupted: "bad",
  passed: "good",
  failed: "bad",
  does_not_apply: "quiet",
  unknown: "warn",
};

export function toneOf(state: string): Tone {
  return STATE_TONES[state] ?? "quiet";
}

/** Replaces underscores by spaces: `in_flight` → `in flight`. */
export function humanize(word: string): string {
  return word.replaceAll("_", " ");
}

const REASON_TEXTS: Record<string, string> = {
  exhausted: "every attempt that its contract allows failed",
  refused_by_receiver: "the receiver's answer means that it will never take it",
  serialisation_failed: "its data could not be put into the form that the contract wants",
  signing_failed: "it could not be signed",
  closed: "somebody looked at it and closed it",
  endpoint_off: "the endpoint was off",
  endpoint_deleted: "the endpoint was deleted",
  by_hand: "somebody did so by hand",
  give_up_after: "it had waited for as long as its contract allows",
  retention: "its event was kept no longer",
  gone: "the receiver answered 410: it wants nothing more here",
  failing: "nothing had succeeded for too long",
  auto_disabled_failures: "too many events in a row could not be delivered",
  no_endpoint_subscribes: "no endpoint subscribes to its type",
};

export function reasonText(reason: string): string {
  return REASON_TEXTS[reason] ?? humanize(reason);
}

const TERMINAL_STATES = new Set(["delivered", "dead", "cancelled", "expired"]);

export function isTerminal(status: string): boolean {
  return TERMINAL_STATES.has(status);
}

export interface DeliveryActions {
  retry: boolean;
  cancel: boolean;
  replay: boolean;
  close: boolean;
  delete: boolean;
}

/** Returns the actions that the API allows in a status; it answers the others with 409. */
export function actionsFor(status: string, reason: string | null): DeliveryActions {
  const isClosed = status === "dead" && reason === "closed";
  return {
    retry: ["retrying", "dead", "cancelled", "expired"].includes(status),
    cancel: ["pending", "retrying", "held"].includes(status),
    replay: isTerminal(status),
    close: status === "dead" && !isClosed,
    delete: isTerminal(status),
  };
}
