import type { PagedList } from "../api/paged-list";

/** The button for the next page of a list. Renders nothing if there is none. */
export function LoadMore<T>({ list, label = "Show more" }: { list: PagedList<T>; label?: string }) {
  if (!list.hasMore) return null;
  return (
    <p class="more">
      <button type="button" onClick={list.loadMore} disabled={list.isLoading}>
        {list.isLoading ? "Reading…" : label}
      </button>
    </p>
  );
}
