import { beforeEach, describe, expect, it } from "vitest";
import { type ListPage, REFETCH_PAGES_MAX, type ListState, ListReader, mergeRefetched } from "./paged-list";
import { ApiError } from "./error";

interface Row {
  id: string;
  state: string;
}

const PAGE_ROWS = 3;
const eventLoopTurn = () => new Promise<void>((resolve) => setTimeout(resolve, 0));
const idOf = (row: { id: string }) => row.id;

/** Rows `from` down to `to`, newest first. */
function rows(from: number, to: number, state = "waiting"): Row[] {
  return Array.from({ length: Math.max(0, from - to + 1) }, (_, at) => ({ id: String(from - at), state }));
}

describe("a list", () => {
  let stored: Row[];
  let state: ListState<Row>;
  let reader: ListReader<Row>;
  /** While true, responses are held back until `release`. */
  let isSlow: boolean;
  let pending: (() => void)[];
  let error: ApiError | null;
  let readCount: number;

  const answer = (cursor: string | undefined): ListPage<Row> => {
    const older = stored.filter((row) => cursor === undefined || Number(row.id) < Number(cursor));
    const data = older.slice(0, PAGE_ROWS).map((row) => ({ ...row }));
    return { data, next_cursor: older.length > PAGE_ROWS ? (data.at(-1)?.id ?? null) : null };
  };
  const read = (cursor: string | undefined) => {
    readCount += 1;
    if (error !== null) return Promise.reject(error);
    const page = answer(cursor);
    return isSlow ? new Promise<ListPage<Row>>((resolve) => pending.push(() => resolve(page))) : Promise.resolve(page);
  };
  const release = async () => {
    pending.shift()?.();
    await eventLoopTurn();
  };
  const after = async (...actions: (() => void)[]) => {
    for (const action of actions) action();
    await eventLoopTurn();
  };
  const ids = () => state.loaded?.rows.map(idOf);

  beforeEach(() => {
    stored = rows(9, 1);
    [isSlow, pending, error, readCount] = [false, [], null, 0];
    const name = "list";
    reader = new ListReader(
      () => ({ name, read, idOf }),
      (next) => (state = next),
    );
  });

  it("is loaded page by page to its end", async () => {
    await after(reader.refetch, reader.loadMore);
    expect(ids()).toEqual(["9", "8", "7", "6", "5", "4"]);
    await after(reader.loadMore);
    expect([ids()?.length, state.loaded?.cursor]).toEqual([9, null]);
  });

  it("becomes empty when all rows were deleted", async () => {
    await after(reader.refetch, reader.loadMore);
    stored = [];
    await after(reader.refetch);
    expect(ids()).toEqual([]);
  });

  it("shows new states beyond the first page too", async () => {
    await after(reader.refetch, reader.loadMore);
    stored = rows(9, 1, "delivered");
    await after(reader.refetch);
    expect(state.loaded?.rows.map((row) => row.state)).toEqual(Array(6).fill("delivered"));
  });

  it("has no gap after many new rows", async () => {
    await after(reader.refetch, reader.loadMore);
    stored = rows(99, 1);
    await after(reader.refetch);
    expect(ids()).toEqual(["99", "98", "97", "96", "95", "94"]);
    await after(reader.loadMore);
    expect(ids()?.at(-1)).toBe("91");
  });

  it("loads the next page once for repeated requests, even during a refetch", async () => {
    await after(reader.refetch);
    isSlow = true;
    await after(reader.refetch, reader.loadMore, reader.loadMore);
    expect(state.isLoading).toBe(true);
    await release();
    expect(state.isLoading).toBe(true);
    await after(reader.loadMore);
    await release();
    expect([state.isLoading, ids(), pending.length]).toEqual([false, ["9", "8", "7", "6", "5", "4"], 0]);
  });

  it("is never overwritten by an older answer", async () => {
    isSlow = true;
    await after(reader.refetch);
    stored = rows(10, 1);
    await after(reader.refetch);
    await release();
    await release();
    expect(ids()).toEqual(["10", "9", "8"]);
  });

  it("keeps its rows and has the error after a failed refetch", async () => {
    await after(reader.refetch, reader.loadMore);
    error = new ApiError(503, "unavailable", "why");
    await after(reader.refetch);
    expect([ids()?.length, state.error?.status, state.isLoading]).toEqual([6, 503, false]);
    await after(reader.loadMore);
    expect([ids()?.length, state.isLoading]).toEqual([6, false]);
  });

  it("refetches at most REFETCH_PAGES_MAX pages", async () => {
    stored = rows(99, 1);
    await after(reader.refetch);
    for (let page = 1; page < REFETCH_PAGES_MAX + 2; page += 1) await after(reader.loadMore);
    const shown = ids();
    readCount = 0;
    stored = rows(99, 1, "delivered");
    await after(reader.refetch);
    expect([readCount, ids()]).toEqual([REFETCH_PAGES_MAX, shown]);
    expect(state.loaded?.rows.filter((row) => row.state === "delivered")).toHaveLength(REFETCH_PAGES_MAX * PAGE_ROWS);
  });
});

describe("refetched rows, merged into a longer list", () => {
  const loaded = (ids: string[], pageCount: number, cursor: string | null) => ({
    rows: ids.map((id) => ({ id })),
    pageCount,
    cursor,
  });
  const over = (fresh: string[], before: string[], cursor: string | null = "fresh") => {
    const merged = mergeRefetched(loaded(fresh, 2, cursor), loaded(before, 4, "before"), idOf);
    return [merged.rows.map(idOf).join(" "), merged.cursor];
  };

  it("come before the older rows", () => {
    expect(over(["5", "4", "3"], ["4", "3", "2", "1"])).toEqual(["5 4 3 2 1", "before"]);
  });

  it("remove rows that were deleted within their range", () => {
    expect(over(["5", "3", "2"], ["5", "4", "3", "2", "1"])).toEqual(["5 3 2 1", "before"]);
  });

  it("contain a row that moved up once", () => {
    expect(over(["1", "5", "4"], ["5", "4", "3", "2", "1"])).toEqual(["1 5 4 3 2", "before"]);
  });

  it("replace all rows if none is shared, and at the end of the list", () => {
    expect(over(["9", "8"], ["3", "2"])).toEqual(["9 8", "fresh"]);
    expect(over(["3"], ["3", "2"], null)).toEqual(["3", null]);
    expect(over([], ["3", "2"], null)).toEqual(["", null]);
  });

  it("keep older rows if a filtered page is empty", () => {
    expect(over([], ["2", "1"])).toEqual(["2 1", "before"]);
  });
});
