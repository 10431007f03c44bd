// Where we are: the path and the query of the address bar, as signals. Small enough to be its own: the libraries for it treat
// the query as a string, and here the filters of every list live in it.
import { batch, computed, signal } from "@preact/signals";
import { type Changes, changed } from "./query";

/** A portal's pages stay below the address that it was opened by: only those may be shown in a frame. */
const base = /^\/portal\/[^/]+/.exec(window.location.pathname)?.[0] ?? "";

function pathHere(): string {
  return window.location.pathname.slice(base.length) || "/";
}

const path = signal(pathHere());
const search = signal(window.location.search);

export const currentPath = computed(() => path.value);
export const currentQuery = computed(() => new URLSearchParams(search.value));

function read(): void {
  batch(() => {
    path.value = pathHere();
    search.value = window.location.search;
  });
}

export function go(to: string, options: { replace?: boolean } = {}): void {
  const isOtherPage = new URL(to, window.location.href).pathname !== path.value;
  if (options.replace) window.history.replaceState(null, "", base + to);
  else window.history.pushState(null, "", base + to);
  read();
  if (isOtherPage) window.scrollTo(0, 0);
}

/** Changes the query and stays on the page; the way back leads out of it, not through every filter. */
export function filter(changes: Changes): void {
  const query = changed(currentQuery.value, changes);
  go(path.value + query, { replace: true });
}

/** Lets plain links be followed without loading the page anew. */
export function followLinks(): void {
  window.addEventListener("popstate", read);
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    if (link === null || link.target !== "" || link.hasAttribute("download") || link.origin !== window.location.origin) return;
    event.preventDefault();
    go(link.pathname + link.search);
  });
}
