// Summarizes a delivery: its status and what happens next.
import type { Delivery } from "../api/schema";
import type { ContractDocument } from "./contract-document";
import { type Tone, reasonText } from "./states";
import { jitterBounds } from "./timeline";
import { durationMs, contractDuration } from "./times";

export interface DeliverySummary {
  tone: Tone;
  text: string;
  /** Time of the next attempt, shown after the text. */
  nextAt: string | null;
}

/** Returns the summary of a delivery. `now` is in milliseconds since 1970. */
export function deliverySummaryOf(
  delivery: Delivery,
  contract: ContractDocument | null | undefined,
  now: number,
): DeliverySummary {
  const next = delivery.next_attempt_at ?? null;
  const why = delivery.reason ? reasonText(delivery.reason) : null;
  switch (delivery.status) {
    case "delivered":
      return { tone: "good", text: `Delivered at attempt ${delivery.attempt_count}.`, nextAt: null };
    case "in_flight":
      return { tone: "busy", text: "On its way right now.", nextAt: null };
    case "pending":
      return {
        tone: "quiet",
        text: next ? "Waiting for its time." : "Waiting for a free hand: it goes as soon as there is one.",
        nextAt: next,
      };
    case "held":
      return {
        tone: "held",
        text: "Held while its endpoint is off. It goes on when the endpoint is switched on again.",
        nextAt: null,
      };
    case "retrying":
      return retrying(delivery, contract, next, now);
    case "dead":
      return {
        tone: "bad",
        text: `Dead: ${why ?? "it could not be delivered"}. It can be replayed with a fresh schedule.`,
        nextAt: null,
      };
    case "cancelled":
      return {
        tone: "quiet",
        text: `Cancelled: ${why ?? "somebody did so"}. It can still be retried or replayed.`,
        nextAt: null,
      };
    case "expired":
      return {
        tone: "quiet",
        text: `Expired: ${why ?? "it waited too long"}. It can still be retried or replayed.`,
        nextAt: null,
      };
    default:
      return { tone: "quiet", text: delivery.status, nextAt: next };
  }
}

/** Whether an attempt is due but was not made yet. */
export function isOverdue(at: string | null | undefined, now: number): boolean {
  return at != null && Date.parse(at) <= now;
}

function retrying(
  delivery: Delivery,
  contract: ContractDocument | null | undefined,
  next: string | null,
  now: number,
): DeliverySummary {
  const comes = isOverdue(next, now) ? "was due" : "comes";
  const failed = `Attempt ${delivery.attempt_count} failed (${delivery.last_error ?? "no answer"}).`;
  if (!contract) return { tone: "warn", text: `${failed} The next one ${comes}`, nextAt: next };
  const { waits, final_wait } = contract.retry;
  const wait = waits[delivery.attempt_count - 1];
  if (wait === undefined) {
    const rest = final_wait
      ? `Its contract waits ${final_wait} before it is dead; retrying by hand still works.`
      : "It was the last of its schedule.";
    return { tone: "warn", text: `${failed} ${rest}`, nextAt: next };
  }
  if (next === null)
    return {
      tone: "warn",
      text: `${failed} One extra attempt was asked for by hand and comes as soon as a hand is free.`,
      nextAt: null,
    };
  const attempts = waits.length + 1;
  return {
    tone: "warn",
    text: `${failed} The contract waits ${waitText(wait, contract.retry.jitter)} after it, so attempt ${delivery.attempt_count + 1} of ${attempts} ${comes}`,
    nextAt: next,
  };
}

/** Applies the jitter to a wait: `5m` with 20 % becomes `4m to 6m`. */
export function waitText(wait: string, jitter: string): string {
  const ms = durationMs(wait);
  const [low, high] = jitterBounds(jitter);
  if (ms === null || low === high) return wait;
  return `${contractDuration(ms * low)} to ${contractDuration(ms * high)}`;
}
