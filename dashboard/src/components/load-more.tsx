import type { PagedList } from "../api/paged-list";

/** The way to the next page of a list, where there is one. */
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
