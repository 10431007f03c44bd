// A portal's pages stay below the address that it was opened by: only those may be shown in a frame, and whoever is there came
// by a link and has no key to sign in with.

/** `/portal/…` of a portal's address; empty everywhere else. */
export function portalBaseOf(path: string): string {
  return /^\/portal\/[^/]+/.exec(path)?.[0] ?? "";
}
