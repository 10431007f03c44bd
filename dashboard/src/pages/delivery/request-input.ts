// Collects the values that a request is rebuilt from, for the page and for `curl`.
import type { Attempt } from "../../api/schema";
import type { AttemptInput, RequestInput } from "../../text/request";
import { keyKindOf } from "../../text/signing";
import type { DeliveryContext } from "./delivery";

export function requestInputOf(context: DeliveryContext): RequestInput {
  const { app, delivery, event, endpoint, isLive } = context;
  return {
    appId: app,
    isLive,
    keyKind: endpoint ? keyKindOf(endpoint) : "shared",
    eventId: delivery.event_id,
    eventType: delivery.event_type,
    createdAt: event?.event.created_at ?? delivery.created_at,
    deliveryId: delivery.replay_of ?? delivery.id,
  };
}

export function attemptInputOf(attempt: Attempt | undefined): AttemptInput {
  return {
    attemptId: attempt?.id ?? "del_",
    number: attempt?.number ?? 1,
    startedAt: attempt?.started_at ?? new Date().toISOString(),
  };
}
