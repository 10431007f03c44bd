import type { Pages } from "../api/pages";

/** The way to the next page of a list, where there is one. */
export function LoadMore<T>({ pages, label = "Show more" }: { pages: Pages<T>; label?: string }) {
  if (!pages.hasMore) return null;
  return (
    <p class="more">
      <button type="button" onClick={pages.more} disabled={pages.isReading}>
        {pages.isReading ? "Reading…" : label}
      </button>
    </p>
  );
}
