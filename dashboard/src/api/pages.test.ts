import { beforeEach, describe, expect, it } from "vitest";
import { type Page, REREAD_PAGES_MAX, type ReadSoFar, Reading, laidOver } from "./pages";
import { Refusal } from "./problem";

interface Row {
  id: string;
  state: string;
}

const PAGE_ROWS = 3;
const settled = () => new Promise<void>((resolve) => setTimeout(resolve, 0));
const idOf = (row: { id: string }) => row.id;

/** Rows `from` down to `to`, newest first. */
function rows(from: number, to: number, state = "waiting"): Row[] {
  return Array.from({ length: Math.max(0, from - to + 1) }, (_, at) => ({ id: String(from - at), state }));
}

describe("a list", () => {
  let stored: Row[];
  let soFar: ReadSoFar<Row>;
  let reading: Reading<Row>;
  /** While true, answers are made and held back. */
  let isSlow: boolean;
  let held: (() => void)[];
  let refusal: Refusal | null;
  let readCount: number;

  const answer = (cursor: string | undefined): Page<Row> => {
    const older = stored.filter((row) => cursor === undefined || Number(row.id) < Number(cursor));
    const data = older.slice(0, PAGE_ROWS).map((row) => ({ ...row }));
    return { data, next_cursor: older.length > PAGE_ROWS ? (data.at(-1)?.id ?? null) : null };
  };
  const read = (cursor: string | undefined) => {
    readCount += 1;
    if (refusal !== null) return Promise.reject(refusal);
    const page = answer(cursor);
    return isSlow ? new Promise<Page<Row>>((resolve) => held.push(() => resolve(page))) : Promise.resolve(page);
  };
  const release = async () => {
    held.shift()?.();
    await settled();
  };
  const after = async (...wishes: (() => void)[]) => {
    for (const wish of wishes) wish();
    await settled();
  };
  const ids = () => soFar.stretch?.rows.map(idOf);

  beforeEach(() => {
    stored = rows(9, 1);
    [isSlow, held, refusal, readCount] = [false, [], null, 0];
    const name = "list";
    reading = new Reading(
      () => ({ name, read, idOf }),
      (next) => (soFar = next),
    );
  });

  it("is read page by page to its end", async () => {
    await after(reading.again, reading.more);
    expect(ids()).toEqual(["9", "8", "7", "6", "5", "4"]);
    await after(reading.more);
    expect([ids()?.length, soFar.stretch?.cursor]).toEqual([9, null]);
  });

  it("becomes empty when nothing is there any more", async () => {
    await after(reading.again, reading.more);
    stored = [];
    await after(reading.again);
    expect(ids()).toEqual([]);
  });

  it("shows new states beyond the first page too", async () => {
    await after(reading.again, reading.more);
    stored = rows(9, 1, "delivered");
    await after(reading.again);
    expect(soFar.stretch?.rows.map((row) => row.state)).toEqual(Array(6).fill("delivered"));
  });

  it("has no gap, however much is new", async () => {
    await after(reading.again, reading.more);
    stored = rows(99, 1);
    await after(reading.again);
    expect(ids()).toEqual(["99", "98", "97", "96", "95", "94"]);
    await after(reading.more);
    expect(ids()?.at(-1)).toBe("91");
  });

  it("is read further once, however often that is asked for, also while it is read again", async () => {
    await after(reading.again);
    isSlow = true;
    await after(reading.again, reading.more, reading.more);
    expect(soFar.isReading).toBe(true);
    await release();
    expect(soFar.isReading).toBe(true);
    await after(reading.more);
    await release();
    expect([soFar.isReading, ids(), held.length]).toEqual([false, ["9", "8", "7", "6", "5", "4"], 0]);
  });

  it("is never overwritten by an older answer", async () => {
    isSlow = true;
    await after(reading.again);
    stored = rows(10, 1);
    await after(reading.again);
    await release();
    await release();
    expect(ids()).toEqual(["10", "9", "8"]);
  });

  it("keeps its rows and says why, when it cannot be read again", async () => {
    await after(reading.again, reading.more);
    refusal = new Refusal(503, "unavailable", "why");
    await after(reading.again);
    expect([ids()?.length, soFar.refusal?.status, soFar.isReading]).toEqual([6, 503, false]);
    await after(reading.more);
    expect([ids()?.length, soFar.isReading]).toEqual([6, false]);
  });

  it("is read again at most so far", async () => {
    stored = rows(99, 1);
    await after(reading.again);
    for (let page = 1; page < REREAD_PAGES_MAX + 2; page += 1) await after(reading.more);
    const shown = ids();
    readCount = 0;
    stored = rows(99, 1, "delivered");
    await after(reading.again);
    expect([readCount, ids()]).toEqual([REREAD_PAGES_MAX, shown]);
    expect(soFar.stretch?.rows.filter((row) => row.state === "delivered")).toHaveLength(REREAD_PAGES_MAX * PAGE_ROWS);
  });
});

describe("what was read again, over more than that", () => {
  const stretch = (ids: string[], pageCount: number, cursor: string | null) => ({
    rows: ids.map((id) => ({ id })),
    pageCount,
    cursor,
  });
  const over = (fresh: string[], before: string[], cursor: string | null = "fresh") => {
    const laid = laidOver(stretch(fresh, 2, cursor), stretch(before, 4, "before"), idOf);
    return [laid.rows.map(idOf).join(" "), laid.cursor];
  };

  it("goes before what is further back", () => {
    expect(over(["5", "4", "3"], ["4", "3", "2", "1"])).toEqual(["5 4 3 2 1", "before"]);
  });

  it("takes away what was deleted within its reach", () => {
    expect(over(["5", "3", "2"], ["5", "4", "3", "2", "1"])).toEqual(["5 3 2 1", "before"]);
  });

  it("shows what moved up once", () => {
    expect(over(["1", "5", "4"], ["5", "4", "3", "2", "1"])).toEqual(["1 5 4 3 2", "before"]);
  });

  it("is all there is where the two do not meet, and where the list ends", () => {
    expect(over(["9", "8"], ["3", "2"])).toEqual(["9 8", "fresh"]);
    expect(over(["3"], ["3", "2"], null)).toEqual(["3", null]);
    expect(over([], ["3", "2"], null)).toEqual(["", null]);
  });

  it("keeps the place of whoever looks far back through a filtered list", () => {
    expect(over([], ["2", "1"])).toEqual(["2 1", "before"]);
  });
});
