// The draft of an endpoint, and the fields of it that are sent.
import type { Endpoint } from "../../api/schema";
import { parsePatterns } from "../../text/subscriptions";

export interface EndpointDraft {
  url: string;
  description: string;
  types: string;
  contract: string;
  healthUrl: string;
  inFlight: string;
  version: string;
  ordered: string;
  onDead: string;
  perSecond: string;
  burst: string;
}

export const EMPTY_ENDPOINT_DRAFT: EndpointDraft = {
  url: "",
  description: "",
  types: "",
  contract: "",
  healthUrl: "",
  inFlight: "",
  version: "",
  ordered: "none",
  onDead: "",
  perSecond: "",
  burst: "",
};

/** The draft of an existing endpoint, which also has overrides. */
export interface EndpointSettingsDraft extends EndpointDraft {
  overrides: string;
}

export function endpointDraftOf(endpoint: Endpoint): EndpointSettingsDraft {
  return {
    url: endpoint.url,
    description: endpoint.description ?? "",
    types: endpoint.event_types.join(" "),
    contract: endpoint.contract ?? "",
    healthUrl: endpoint.health_url ?? "",
    inFlight: endpoint.max_in_flight?.toString() ?? "",
    version: endpoint.payload_version ?? "",
    ordered: endpoint.ordered,
    onDead: endpoint.on_dead ?? "",
    perSecond: endpoint.rate_limit?.per_second.toString() ?? "",
    burst: endpoint.rate_limit?.burst?.toString() ?? "",
    overrides: endpoint.overrides ? JSON.stringify(endpoint.overrides, null, 2) : "",
  };
}

/** Returns the request body for a new endpoint. */
export function newEndpointBody(draft: EndpointDraft) {
  return {
    url: draft.url.trim(),
    event_types: parsePatterns(draft.types).patterns,
    ...(draft.description.trim() ? { description: draft.description.trim() } : {}),
    ...(draft.contract ? { contract: draft.contract } : {}),
    ...(draft.healthUrl.trim() ? { health_url: draft.healthUrl.trim() } : {}),
    ...(draft.inFlight ? { max_in_flight: Number(draft.inFlight) } : {}),
    ...(draft.ordered !== "none" ? { ordered: draft.ordered } : {}),
    ...(draft.onDead ? { on_dead: draft.onDead } : {}),
    ...(draft.perSecond ? { rate_limit: rateOf(draft) } : {}),
    ...(draft.version.trim() ? { payload_version: draft.version.trim() } : {}),
  };
}

/** Returns only the changed fields: the audit log lists them, and some keys may not send all fields. */
export function endpointChangesOf(before: EndpointSettingsDraft, after: EndpointSettingsDraft) {
  const isChanged = (name: keyof EndpointSettingsDraft) => before[name] !== after[name];
  const { overrides } = after;
  return {
    ...(isChanged("url") ? { url: after.url.trim() } : {}),
    ...(isChanged("description") ? { description: after.description.trim() || null } : {}),
    ...(isChanged("types") ? { event_types: parsePatterns(after.types).patterns } : {}),
    ...(isChanged("contract") ? { contract: after.contract || null } : {}),
    ...(isChanged("healthUrl") ? { health_url: after.healthUrl.trim() || null } : {}),
    ...(isChanged("inFlight") ? { max_in_flight: after.inFlight === "" ? null : Number(after.inFlight) } : {}),
    ...(isChanged("version") ? { payload_version: after.version.trim() || null } : {}),
    ...(isChanged("ordered") ? { ordered: after.ordered } : {}),
    ...(isChanged("onDead") && after.onDead !== "" ? { on_dead: after.onDead } : {}),
    ...(isChanged("perSecond") || isChanged("burst") ? { rate_limit: rateOf(after) } : {}),
    ...(isChanged("overrides")
      ? { overrides: overrides.trim() === "" ? null : (JSON.parse(overrides) as Record<string, never>) }
      : {}),
  };
}

export function isDraftReady(draft: EndpointDraft): boolean {
  return draft.url.trim() !== "" && parsePatterns(draft.types).wrong.length === 0;
}

/** Returns the rate limit; null for none. It is replaced as a whole: without its burst it would get the default one. */
function rateOf({ perSecond, burst }: EndpointDraft): { per_second: number; burst?: number } | null {
  if (perSecond === "") return null;
  return { per_second: Number(perSecond), ...(burst === "" ? {} : { burst: Number(burst) }) };
}
