// Who is signed in: what the key may do, which app it is for, and how a portal looks.
import { computed, signal } from "@preact/signals";
import { api, ask, askIfThere, holdKey, whenUnauthorized } from "../api/client";
import type { PortalTheme, SessionView } from "../api/coming";
import { Refusal } from "../api/problem";

export interface Session {
  isAdmin: boolean;
  /** It may look, and change nothing. */
  isReadOnly: boolean;
  /** It came by a portal link: a customer's, who sees less than a key of the app. */
  isPortal: boolean;
  /** The one app that it is for; null for an admin key. */
  app: { id: string; name: string } | null;
  theme: PortalTheme | null;
}

export const session = signal<Session | null>(null);
/** Whether the last session was a portal's: whoever had it has no key to sign in with. */
export const wasPortal = signal(false);
/** Why the last session ended, for the sign-in page. */
export const farewell = signal<string | null>(null);

export const isAdmin = computed(() => session.value?.isAdmin === true);
export const isPortal = computed(() => session.value?.isPortal === true);
export const mayChange = computed(() => session.value?.isReadOnly === false);
/** What is published, and erased for good, is the product's business and not its customers'. */
export const mayActForProduct = computed(() => mayChange.value && !isPortal.value);

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
  wasPortal.value = isPortal.value;
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
    return keyOf(keys.response.ok ? null : (apps.data?.data[0] ?? null), keys.response.ok, false);
  }
  if (apps.response.status !== 403) await ask(Promise.resolve(apps));
  if (appId === null) throw new Refusal(403, "app_needed", "This key may only look at one app. Name the app too.", "app");
  return keyOf(await ask(api.GET("/v1/apps/{app}", { params: { path: { app: appId } } })), false, true);
}

function keyOf(app: Session["app"], isAdmin: boolean, isReadOnly: boolean): Session {
  return { isAdmin, isReadOnly, isPortal: false, app: app && { id: app.id, name: app.name }, theme: null };
}

function fromView(view: SessionView): Session {
  if (view.scope === "publish") {
    throw new Refusal(403, "forbidden", "This key may only publish events. Sign in with one that may look.");
  }
  return {
    isAdmin: view.scope === "admin",
    isReadOnly: view.read_only,
    isPortal: view.scope.startsWith("portal"),
    app: view.app,
    theme: view.theme,
  };
}
