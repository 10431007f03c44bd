// The router: path and query of the address bar as signals. It is our own because router libraries treat the query as a
// string, and here it holds the filters of every list.
import { batch, computed, signal } from "@preact/signals";
import { portalBaseOf } from "./base";
import { type QueryChanges, withChanges } from "./query-string";

const base = portalBaseOf(window.location.pathname);
export const isPortalAddress = base !== "";

function pathHere(): string {
  return window.location.pathname.slice(base.length) || "/";
}

const path = signal(pathHere());
const search = signal(window.location.search);

export const currentPath = computed(() => path.value);
export const currentQuery = computed(() => new URLSearchParams(search.value));

function readAddress(): void {
  batch(() => {
    path.value = pathHere();
    search.value = window.location.search;
  });
}

export function navigate(to: string, options: { replace?: boolean } = {}): void {
  const isOtherPage = new URL(to, window.location.href).pathname !== path.value;
  if (options.replace) window.history.replaceState(null, "", base + to);
  else window.history.pushState(null, "", base + to);
  readAddress();
  if (isOtherPage) window.scrollTo(0, 0);
}

/** Opens a page in a new tab. */
export function openInNewTab(to: string): void {
  window.open(base + to, "_blank", "noopener");
}

/** Changes the query of the current page. It replaces the history entry, so that Back leaves the page instead of undoing filters. */
export function setFilters(changes: QueryChanges): void {
  const query = withChanges(currentQuery.value, changes);
  navigate(path.value + query, { replace: true });
}

/** Handles clicks on plain links without a page load. */
export function interceptLinks(): void {
  window.addEventListener("popstate", readAddress);
  document.addEventListener("click", onLinkClick);
  // The middle button.
  document.addEventListener("auxclick", onLinkClick);
}

function onLinkClick(event: MouseEvent): void {
  if (event.defaultPrevented || event.button > 1 || event.altKey) return;
  const isNewTab = event.button === 1 || event.metaKey || event.ctrlKey || event.shiftKey;
  // Links lack the portal's base path, so in a portal new tabs are opened here and not by the browser.
  if (isNewTab && !isPortalAddress) return;
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  if (link === null || link.target !== "" || link.hasAttribute("download") || link.origin !== window.location.origin) return;
  event.preventDefault();
  const to = link.pathname + link.search;
  if (isNewTab) openInNewTab(to);
  else navigate(to);
}
