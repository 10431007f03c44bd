// A list that is loaded page by page. After an invalidation the shown pages are loaded again, so that later rows change too.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Topic } from "./invalidation";
import { onInvalidate } from "./invalidation";
import { TaskQueue } from "./task-queue";
import { type ApiError, toApiError } from "./error";

/** Pages that a refetch loads at most. Rows beyond them stay as they were loaded. */
export const REFETCH_PAGES_MAX = 5;

export interface ListPage<T> {
  data: T[];
  next_cursor?: string | null;
}

export interface PagedList<T> {
  rows: T[] | undefined;
  error: ApiError | null;
  hasMore: boolean;
  isLoading: boolean;
  loadMore: () => void;
  refetch: () => void;
}

/** The rows of the loaded pages, and the cursor of the next page. */
export interface LoadedRows<T> {
  rows: T[];
  cursor: string | null;
  pageCount: number;
}

const NO_ROWS = { rows: [], cursor: null, pageCount: 0 };

function withPage<T>({ rows, pageCount }: LoadedRows<T>, page: ListPage<T>, idOf: (row: T) => string): LoadedRows<T> {
  const ids = new Set(rows.map(idOf));
  const added = page.data.filter((row) => !ids.has(idOf(row)));
  return { rows: [...rows, ...added], cursor: page.next_cursor ?? null, pageCount: pageCount + 1 };
}

/** Joins refetched rows with older rows that follow them. Without a shared row there could be a gap: then only the fresh rows. */
export function mergeRefetched<T>(fresh: LoadedRows<T>, before: LoadedRows<T>, idOf: (row: T) => string): LoadedRows<T> {
  if (fresh.cursor === null || fresh.pageCount >= before.pageCount) return fresh;
  const positions = new Map(before.rows.map((row, at) => [idOf(row), at]));
  const lastShared = fresh.rows.findLast((row) => positions.has(idOf(row)));
  // Pages of a filtered list may be empty and share no row.
  if (lastShared === undefined && fresh.rows.length > 0) return fresh;
  const restStart = lastShared === undefined ? 0 : (positions.get(idOf(lastShared)) ?? 0) + 1;
  const ids = new Set(fresh.rows.map(idOf));
  return { ...before, rows: [...fresh.rows, ...before.rows.slice(restStart).filter((row) => !ids.has(idOf(row)))] };
}

interface ListSource<T> {
  name: string;
  read: (cursor: string | undefined) => Promise<ListPage<T>>;
  idOf: (row: T) => string;
}

export interface ListState<T> {
  name: string;
  /** Null until the first page is loaded. */
  loaded: LoadedRows<T> | null;
  error: ApiError | null;
  isLoading: boolean;
}

function initialState(name: string): ListState<never> {
  return { name, loaded: null, error: null, isLoading: true };
}

/** Loads a list, independent of components. */
export class ListReader<T> {
  #tasks = new TaskQueue();
  #state: ListState<T> = initialState("");
  #isMoreRequested = false;

  constructor(
    readonly source: () => ListSource<T>,
    readonly show: (state: ListState<T>) => void,
  ) {}

  refetch = (): void => {
    this.#enqueue("refetch", async ({ read, idOf }, before) => {
      let fresh: LoadedRows<T> = NO_ROWS;
      do fresh = withPage(fresh, await read(fresh.cursor ?? undefined), idOf);
      while (fresh.cursor !== null && fresh.pageCount < Math.min(before.pageCount, REFETCH_PAGES_MAX));
      return mergeRefetched(fresh, before, idOf);
    });
  };

  loadMore = (): void => {
    if (this.#isMoreRequested) return;
    this.#isMoreRequested = true;
    this.#update({ ...this.#state, isLoading: true });
    this.#enqueue("loadMore", async ({ read, idOf }, before) => {
      try {
        return before.cursor === null ? before : withPage(before, await read(before.cursor), idOf);
      } finally {
        this.#isMoreRequested = false;
      }
    });
  };

  stop = (): void => {
    this.#tasks.clear();
    this.#isMoreRequested = false;
  };

  #enqueue(name: string, load: (source: ListSource<T>, before: LoadedRows<T>) => Promise<LoadedRows<T>>): void {
    this.#tasks.run(name, async (isStale) => {
      const source = this.source();
      const before = this.#state.name === source.name ? this.#state : initialState(source.name);
      const after = await load(source, before.loaded ?? NO_ROWS).then(
        (loaded) => ({ loaded, error: null }),
        (error: unknown) => ({ loaded: before.loaded, error: toApiError(error) }),
      );
      if (!isStale()) this.#update({ name: source.name, ...after, isLoading: this.#isMoreRequested });
    });
  }

  #update(state: ListState<T>): void {
    this.#state = state;
    this.show(state);
  }
}

export function usePagedList<T>(
  name: string,
  read: (cursor: string | undefined) => Promise<ListPage<T>>,
  idOf: (row: T) => string,
  topics: readonly Topic[] = [],
): PagedList<T> {
  const latest = useRef({ name, read, idOf });
  latest.current = { name, read, idOf };
  const [state, show] = useState<ListState<T>>(initialState(name));
  const [reader] = useState(() => new ListReader(() => latest.current, show));
  const { refetch, loadMore, stop } = reader;

  useEffect(() => {
    refetch();
    return stop;
  }, [name]);
  useEffect(() => (topics.length > 0 ? onInvalidate(topics, refetch) : undefined), [topics.join()]);
  const { loaded, error, isLoading } = state.name === name ? state : initialState(name);
  return { rows: loaded?.rows, error, hasMore: (loaded?.cursor ?? null) !== null, isLoading, loadMore, refetch };
}
