// Any id leads to its page: the kinds it can be are tried, in the app on show or, for an operator, in all of them.
import { api } from "../api/client";
import { paths } from "../route/paths";
import { isAdmin, session } from "../session/session";
import { type Kind, deliveryOf, kindsOf } from "../words/ids";

const APPS_MAX = 250;
const AT_ONCE = 4;

/** Where it is, or null if it is nowhere that this key can see. */
export async function find(typed: string, app: string | null): Promise<string | null> {
  const id = deliveryOf(typed);
  const kinds = kindsOf(typed);
  for (const kind of kinds) {
    const path = await outside(kind, id);
    if (path !== null) return path;
  }
  const here = app ?? session.value?.app?.id ?? null;
  if (here !== null) {
    const path = await inApp(kinds, id, here);
    if (path !== null) return path;
  }
  return isAdmin.value ? await inOthers(kinds, id, here) : null;
}

async function outside(kind: Kind, id: string): Promise<string | null> {
  const isThere = (asked: Promise<{ response: Response }>) => asked.then(({ response }) => response.ok);
  if (kind === "app" && (await isThere(api.GET("/v1/apps/{app}", { params: { path: { app: id } } })))) return paths.app(id);
  if (kind === "key" && (await isThere(api.GET("/v1/keys/{key}", { params: { path: { key: id } } })))) return paths.keys();
  if (kind === "event_type" && (await isThere(api.GET("/v1/event-types/{type}", { params: { path: { type: id } } })))) {
    return paths.eventType(id);
  }
  if (kind === "contract" && (await isThere(api.GET("/v1/contracts/{contract}", { params: { path: { contract: id } } })))) {
    return paths.contract(id);
  }
  return null;
}

async function inApp(kinds: Kind[], id: string, app: string): Promise<string | null> {
  for (const kind of kinds) {
    if (kind === "event") {
      const { response } = await api.GET("/v1/apps/{app}/events/{event}", { params: { path: { app, event: id } } });
      if (response.ok) return paths.event(app, id);
    }
    if (kind === "delivery") {
      const { response } = await api.GET("/v1/apps/{app}/deliveries/{delivery}", { params: { path: { app, delivery: id } } });
      if (response.ok) return paths.delivery(app, id);
    }
    if (kind === "endpoint") {
      const { response } = await api.GET("/v1/apps/{app}/endpoints/{endpoint}", { params: { path: { app, endpoint: id } } });
      if (response.ok) return paths.endpoint(app, id);
    }
    if (kind === "replay") {
      const { response } = await api.GET("/v1/apps/{app}/replays/{replay}", { params: { path: { app, replay: id } } });
      if (response.ok) return paths.replay(app, id);
    }
  }
  return null;
}

async function inOthers(kinds: Kind[], id: string, here: string | null): Promise<string | null> {
  const { data } = await api.GET("/v1/apps", { params: { query: { limit: APPS_MAX } } });
  const apps = (data?.data ?? []).map((each) => each.id).filter((each) => each !== here);
  for (let at = 0; at < apps.length; at += AT_ONCE) {
    const found = await Promise.all(apps.slice(at, at + AT_ONCE).map((each) => inApp(kinds, id, each)));
    const path = found.find((each) => each !== null);
    if (path) return path;
  }
  return null;
}
