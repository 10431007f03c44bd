// Any id leads to its page: the server says what it may be, and what is in the app on show comes first.
import { api, ask } from "../api/client";
import type { Found } from "../api/schema";
import { paths } from "../route/paths";
import { session } from "../session/session";

/** Where it is, or null if it is nowhere that this key can see. */
export async function find(id: string, app: string | null): Promise<string | null> {
  const { data } = await ask(api.GET("/v1/find/{id}", { params: { path: { id } } }));
  return leadsTo(data, app ?? session.value?.app?.id ?? null);
}

export function leadsTo(found: Found[], here: string | null): string | null {
  const nearest = found.find((each) => here !== null && each.app_id === here) ?? found[0];
  return nearest ? pageOf(nearest) : null;
}

function pageOf({ kind, id, app_id: app, endpoint_id: endpoint }: Found): string | null {
  if (kind === "key") return paths.keys();
  if (kind === "event_type") return paths.eventType(id);
  if (kind === "contract") return paths.contract(id);
  if (kind === "audit_entry") return app ? paths.appAudit(app) : paths.audit();
  if (!app) return null;
  if (kind === "app") return paths.app(app);
  if (kind === "endpoint") return paths.endpoint(app, id);
  if (kind === "event") return paths.event(app, id);
  if (kind === "delivery") return paths.delivery(app, id);
  if (kind === "replay") return paths.replay(app, id);
  if (kind === "inspection" && endpoint) return paths.endpoint(app, endpoint, "inspect");
  if (kind === "notice") return paths.appNotices(app);
  if (kind === "portal_link") return paths.appLinks(app);
  return null;
}
