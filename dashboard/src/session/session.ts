// The session: what the key may do, its app, and the portal's theme.
import { computed, signal } from "@preact/signals";
import { api, dataOf, setApiKey, onUnauthorized } from "../api/client";
import { ApiError } from "../api/error";
import type { PortalTheme, Session as SessionView } from "../api/schema";
import type { Permissions } from "../text/empty-lists";

export interface Session {
  isAdmin: boolean;
  /** The key may not change anything. */
  isReadOnly: boolean;
  /** The session was opened by a portal link. A customer sees less than a key of the app. */
  isPortal: boolean;
  /** The key's app; null for an admin key. */
  app: { id: string; name: string; livemode: boolean } | null;
  theme: PortalTheme | null;
}

export const session = signal<Session | null>(null);
/** Why the last session ended, for the sign-in page. */
export const signOutReason = signal<string | null>(null);

export const isAdmin = computed(() => session.value?.isAdmin === true);
export const isPortal = computed(() => session.value?.isPortal === true);
export const mayChange = computed(() => session.value?.isReadOnly === false);
/** Whether the session may publish events and erase data. Portal customers may not. */
export const mayActForProduct = computed(() => mayChange.value && !isPortal.value);
export const permissions = computed<Permissions>(() => ({ change: mayChange.value, publish: mayActForProduct.value }));

export async function signIn(key: string): Promise<void> {
  signOutReason.value = null;
  setApiKey(key);
  try {
    session.value = fromView(await dataOf(api.GET("/v1/session")));
  } catch (error) {
    setApiKey(null);
    throw error;
  }
}

export function signOut(why: string | null): void {
  setApiKey(null);
  session.value = null;
  signOutReason.value = why;
}

onUnauthorized((detail) => {
  if (session.value !== null) signOut(detail);
});

function fromView(view: SessionView): Session {
  if (view.scope === "publish") {
    throw new ApiError(403, "forbidden", "This key may only publish events. Sign in with one that may look.");
  }
  return {
    isAdmin: view.scope === "admin",
    isReadOnly: view.read_only,
    isPortal: view.scope.startsWith("portal"),
    app: view.app ?? null,
    theme: view.theme ?? null,
  };
}
