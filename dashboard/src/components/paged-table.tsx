// A paged list: a table, or its loading, empty or error state, and a button for the next page.
import type { ComponentChildren } from "preact";
import type { PagedList } from "../api/paged-list";
import { Empty, Skeleton, ErrorMessage } from "./query-view";
import { LoadMore } from "./load-more";
import { type Column, Table } from "./table";

interface Props<T> {
  caption: string;
  list: PagedList<T>;
  columns: Column<T>[];
  idOf: (row: T) => string;
  hrefOf?: (row: T) => string;
  /** Whether a filter is set: an empty result then has another text. */
  isFiltered?: boolean;
  empty: ComponentChildren;
}

export function PagedTable<T>({ caption, list, columns, idOf, hrefOf, isFiltered = false, empty }: Props<T>) {
  const { rows, error, hasMore, refetch } = list;
  if (rows === undefined) return error ? <ErrorMessage error={error} onRetry={refetch} /> : <Skeleton />;
  return (
    <>
      {error && error.status !== 0 && <ErrorMessage error={error} onRetry={refetch} />}
      {rows.length > 0 ? (
        <Table caption={caption} columns={columns} rows={rows} idOf={idOf} {...(hrefOf ? { hrefOf } : {})} />
      ) : isFiltered ? (
        <Empty title={hasMore ? "Nothing yet in what was looked through" : "Nothing fits these filters"}>
          {hasMore ? "A page looks through the newest 10,000. Look further back below." : "Take a filter away to see more."}
        </Empty>
      ) : (
        empty
      )}
      <LoadMore list={list} label={rows.length > 0 ? "Show more" : "Look further back"} />
    </>
  );
}
