// Routes that the API is about to have, as the pages assume them. This file goes away when docs/openapi.json has them; until
// then a server that answers 404 here is one that does not have them yet, and the pages say so or leave the part out.
import type { components, paths } from "./schema.gen";

type Endpoint = components["schemas"]["Endpoint"];
type Json<T> = { content: { "application/json": T } };
type Answer<T, Status extends number = 200> = { responses: { [S in Status]: Json<T> } };
type Outside<Query = never> = { query?: Query; header?: never; path?: never; cookie?: never };
type InApp<Query = never> = { query?: Query; header?: never; path: { app: string }; cookie?: never };
type InEndpoint = { query?: never; header?: never; path: { app: string; endpoint: string }; cookie?: never };
type Paging = { limit?: number; cursor?: string };

/** How a portal looks. */
export interface PortalTheme {
  name: string | null;
  logo_url: string | null;
  accent: string | null;
}

/** Who a key is. */
export interface SessionView {
  scope: "admin" | "app" | "publish" | "read" | "portal" | "portal_read";
  app: { id: string; name: string } | null;
  /** Whether it changes nothing. */
  read_only: boolean;
  expires_at: string | null;
  theme: PortalTheme | null;
}

export interface Percentiles {
  p50: number | null;
  p90: number | null;
  p99: number | null;
}

/** Attempts of one kind: success is what the contract counts as such. */
export interface Tally {
  attempts: number;
  failed: number;
  /** From 0 to 1; null without attempts. */
  success_rate: number | null;
  latency_ms: Percentiles;
}

export interface StatsBucket {
  at: string;
  events: number;
  delivered: number;
  dead: number;
  succeeded: number;
  failed: number;
  latency_ms: Percentiles;
}

export interface Stats {
  from: string;
  to: string;
  step_seconds: number;
  totals: Tally & { events: number; delivered: number; dead: number };
  backlog: { waiting: number; held: number; oldest_due_at: string | null };
  /** Keys `2xx`, `3xx`, `4xx`, `5xx` and `none`. */
  status_classes: Record<string, number>;
  /** Status codes, or classes where no answer came; the most common first. */
  failures: { code: string; count: number }[];
  /** The worst first. */
  endpoints: (Tally & { app_id: string; endpoint_id: string; url: string; state: HealthState })[];
  event_types: (Tally & { event_type: string; events: number })[];
  series: StatsBucket[];
}

type StatsQuery = { from?: string; to?: string; endpoint_id?: string; event_type?: string };

export type HealthState = "healthy" | "degraded" | "failing" | "disabled";

export interface EndpointHealth {
  state: HealthState;
  since: string;
  consecutive_failures: number;
  failed_events_in_a_row: number;
  first_failure_at: string | null;
  last_success_at: string | null;
  last_error: string | null;
  /** When it will be switched off unless something succeeds. */
  off_at: string | null;
  /** `1h`, `24h` and `72h`. */
  windows: Record<string, Tally>;
}

/** What deliveries, attempts and endpoints are about to tell besides. */
export interface ComingDelivery {
  /** It is due and not sent now: what it waits for, in words. */
  waits_because?: string | null;
}

export interface ComingAttempt {
  /** Why it was made when it was, where its schedule does not say. */
  note?: string | null;
}

export interface ComingEndpoint {
  /** The id of a key, `settings`, `receiver` or `posthaste`. */
  disabled_by?: string | null;
  /** In the answer to switching it on with `replay` only. */
  replays?: { id: string }[];
}

export interface Notice {
  id: string;
  kind: string;
  app_id: string;
  endpoint_id: string | null;
  delivery_id: string | null;
  replay_id: string | null;
  at: string;
  /** One sentence for people. */
  text: string;
  since: string | null;
  last_error: string | null;
  /** How many it stands for. */
  count: number;
  url: string | null;
  mail: { state: "none" | "waiting" | "sent" | "refused"; at: string | null; error: string | null };
}

type NoticePage = { data: Notice[]; next_cursor?: string | null };

export interface PortalLink {
  id: string;
  read_only: boolean;
  prefix: string;
  theme: PortalTheme;
  created_at: string;
  expires_at: string | null;
  last_used_at: string | null;
  /** With the token in its fragment; in the answer to its creation only. */
  url?: string;
}

export interface NewPortalLink {
  /** A duration, for example `1h`. */
  expires_in?: string;
  read_only?: boolean;
  theme?: Partial<PortalTheme>;
}

export interface ComingPaths {
  "/v1/session": { get: { parameters: Outside } & Answer<SessionView> };
  "/v1/stats": { get: { parameters: Outside<StatsQuery> } & Answer<Stats> };
  "/v1/apps/{app}/stats": { get: { parameters: InApp<StatsQuery> } & Answer<Stats> };
  "/v1/notices": { get: { parameters: Outside<Paging> } & Answer<NoticePage> };
  "/v1/apps/{app}/notices": { get: { parameters: InApp<Paging> } & Answer<NoticePage> };
  "/v1/apps/{app}/portal-links": {
    get: { parameters: InApp<Paging> } & Answer<{ data: PortalLink[]; next_cursor?: string | null }>;
    post: { parameters: InApp; requestBody: Json<NewPortalLink> } & Answer<PortalLink, 201>;
  };
  "/v1/apps/{app}/portal-links/{link}": {
    delete: {
      parameters: { query?: never; header?: never; path: { app: string; link: string }; cookie?: never };
      responses: { 204: { content?: never } };
    };
  };
  "/v1/apps/{app}/endpoints/{endpoint}/health": { get: { parameters: InEndpoint } & Answer<EndpointHealth> };
  "/v1/apps/{app}/endpoints/{endpoint}/enable": {
    post: { parameters: InEndpoint; requestBody?: Json<{ replay?: boolean }> } & Answer<Endpoint & ComingEndpoint>;
  };
}

export type Paths = Omit<paths, keyof ComingPaths> & ComingPaths;
