// Where we are: the path and the query of the address bar, as signals. Small enough to be its own: the libraries for it treat
// the query as a string, and here the filters of every list live in it.
import { batch, computed, signal } from "@preact/signals";
import { type Changes, changed } from "./query";

const path = signal(window.location.pathname);
const search = signal(window.location.search);

export const currentPath = computed(() => path.value);
export const currentQuery = computed(() => new URLSearchParams(search.value));

function read(): void {
  batch(() => {
    path.value = window.location.pathname;
    search.value = window.location.search;
  });
}

export function go(to: string, options: { replace?: boolean } = {}): void {
  const isOtherPage = new URL(to, window.location.href).pathname !== path.value;
  if (options.replace) window.history.replaceState(null, "", to);
  else window.history.pushState(null, "", to);
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
