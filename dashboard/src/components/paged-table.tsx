// A list as pages show it: a table, or a skeleton, an empty state or trouble; and a way to read on.
import type { ComponentChildren } from "preact";
import type { Pages } from "../api/pages";
import { Empty, Skeleton, ErrorMessage } from "./query-view";
import { LoadMore } from "./load-more";
import { type Column, Table } from "./table";

interface Props<T> {
  caption: string;
  pages: Pages<T>;
  columns: Column<T>[];
  idOf: (row: T) => string;
  hrefOf?: (row: T) => string;
  /** Whether a filter is set: then nothing found is not the same as nothing there. */
  isFiltered?: boolean;
  empty: ComponentChildren;
}

export function PagedTable<T>({ caption, pages, columns, idOf, hrefOf, isFiltered = false, empty }: Props<T>) {
  const { rows, refusal, hasMore, again } = pages;
  if (rows === undefined) return refusal ? <ErrorMessage refusal={refusal} again={again} /> : <Skeleton />;
  return (
    <>
      {refusal && refusal.status !== 0 && <ErrorMessage refusal={refusal} again={again} />}
      {rows.length > 0 ? (
        <Table caption={caption} columns={columns} rows={rows} idOf={idOf} {...(hrefOf ? { hrefOf } : {})} />
      ) : isFiltered ? (
        <Empty title={hasMore ? "Nothing yet in what was looked through" : "Nothing fits these filters"}>
          {hasMore ? "A page looks through the newest 10,000. Look further back below." : "Take a filter away to see more."}
        </Empty>
      ) : (
        empty
      )}
      <LoadMore pages={pages} label={rows.length > 0 ? "Show more" : "Look further back"} />
    </>
  );
}
