// A portal's pages stay below the path of its link. Only these paths may be shown in a frame, and their users have a link
// instead of a key.

/** Returns `/portal/…` for a portal's path, and an empty text otherwise. */
export function portalBaseOf(path: string): string {
  return /^\/portal\/[^/]+/.exec(path)?.[0] ?? "";
}
