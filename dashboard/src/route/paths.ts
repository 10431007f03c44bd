// The paths of pages. Ids may contain reserved characters, so each is encoded.
import { withChanges } from "./query-string";

const part = encodeURIComponent;

function inApp(app: string, rest = ""): string {
  return `/apps/${part(app)}${rest}`;
}

export const paths = {
  overview: () => "/",
  apps: () => "/apps",
  contracts: () => "/contracts",
  contract: (name: string) => `/contracts/${part(name)}`,
  eventTypes: () => "/event-types",
  eventType: (name: string) => `/event-types/${part(name)}`,
  keys: () => "/keys",
  audit: (query: Record<string, string> = {}) => `/audit${withChanges(new URLSearchParams(), query)}`,
  notices: () => "/notices",
  system: () => "/system",
  app: (app: string) => inApp(app),
  appSettings: (app: string) => inApp(app, "/settings"),
  appAudit: (app: string) => inApp(app, "/audit"),
  appNotices: (app: string) => inApp(app, "/notices"),
  appLinks: (app: string) => inApp(app, "/portal"),
  endpoints: (app: string) => inApp(app, "/endpoints"),
  endpoint: (app: string, id: string, tab = "") => inApp(app, `/endpoints/${part(id)}${tab ? `/${tab}` : ""}`),
  events: (app: string, query: Record<string, string> = {}) => inApp(app, `/events${withChanges(new URLSearchParams(), query)}`),
  event: (app: string, id: string) => inApp(app, `/events/${part(id)}`),
  deliveries: (app: string, query: Record<string, string> = {}) =>
    inApp(app, `/deliveries${withChanges(new URLSearchParams(), query)}`),
  delivery: (app: string, id: string) => inApp(app, `/deliveries/${part(id)}`),
  deadLetters: (app: string, query: Record<string, string> = {}) =>
    inApp(app, `/dead-letters${withChanges(new URLSearchParams(), query)}`),
  replays: (app: string) => inApp(app, "/replays"),
  replay: (app: string, id: string) => inApp(app, `/replays/${part(id)}`),
};
