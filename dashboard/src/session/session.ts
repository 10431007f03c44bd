// Who is signed in: what the key may do, which app it is for, and how a portal looks.
import { computed, signal } from "@preact/signals";
import { api, ask, askIfThere, holdKey, whenUnauthorized } from "../api/client";
import type { SessionView } from "../api/coming";
import { Refusal } from "../api/problem";

export type Scope = "admin" | "app" | "read";

export interface Session {
  scope: Scope;
  /** The one app that the key is for; null for an admin key. */
  appId: string | null;
  portal: SessionView["portal"];
}

export const session = signal<Session | null>(null);
/** Whether the last session was a portal's: whoever had it has no key to sign in with. */
export const wasPortal = signal(false);
/** Why the last session ended, for the sign-in page. */
export const farewell = signal<string | null>(null);

export const isAdmin = computed(() => session.value?.scope === "admin");
export const mayChange = computed(() => session.value?.scope !== "read");
/** A portal's customers manage and replay; what is published comes from the product alone. */
export const mayPublish = computed(() => mayChange.value && session.value?.portal === null);

/** A key for one app that may only look cannot tell which app it is for; then `appId` must. */
export async function signIn(key: string, appId: string | null): Promise<void> {
  farewell.value = null;
  holdKey(key);
  try {
    session.value = await whoIs(appId);
  } catch (error) {
    holdKey(null);
    throw error;
  }
}

export function signOut(why: string | null): void {
  holdKey(null);
  wasPortal.value = session.value?.portal != null;
  session.value = null;
  farewell.value = why;
}

whenUnauthorized((detail) => {
  if (session.value !== null) signOut(detail);
});

async function whoIs(appId: string | null): Promise<Session> {
  const told = await askIfThere(api.GET("/v1/session", {}));
  if (told !== null) return fromView(told);
  // Servers without /v1/session: what a key may look at tells what it is.
  const apps = await api.GET("/v1/apps", { params: { query: { limit: 1 } } });
  if (apps.response.ok) {
    const keys = await api.GET("/v1/keys", { params: { query: { limit: 1 } } });
    if (keys.response.ok) return { scope: "admin", appId: null, portal: null };
    return { scope: "app", appId: apps.data?.data[0]?.id ?? appId, portal: null };
  }
  if (apps.response.status !== 403) await ask(Promise.resolve(apps));
  if (appId === null) throw new Refusal(403, "app_needed", "This key may only look at one app. Name the app too.", "app");
  await ask(api.GET("/v1/apps/{app}", { params: { path: { app: appId } } }));
  return { scope: "read", appId, portal: null };
}

function fromView(view: SessionView): Session {
  if (view.scope === "publish") {
    throw new Refusal(403, "forbidden", "This key may only publish events. Sign in with one that may look.");
  }
  return { scope: view.scope, appId: view.app_id, portal: view.portal };
}
