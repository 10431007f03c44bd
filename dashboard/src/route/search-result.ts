// The page of a search result.
import type { SearchResult } from "../api/schema";
import { paths } from "./paths";

/** Returns the path of the best result: results in the current app come first. */
export function pathOfResult(results: SearchResult[], currentApp: string | null): string | null {
  const nearest = results.find((each) => currentApp !== null && each.app_id === currentApp) ?? results[0];
  return nearest ? pathOf(nearest) : null;
}

function pathOf({ kind, id, app_id: app, endpoint_id: endpoint }: SearchResult): string | null {
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
