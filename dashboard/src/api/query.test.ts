import { beforeEach, describe, expect, it } from "vitest";
import { QueryRunner, type QueryState } from "./query";
import { ApiError } from "./error";

type AnswerBadge = { resolveWith: (data: string) => Promise<void>; rejectWith: (status: number) => Promise<void> };

/** Waits for one turn of the event loop: all reactions to settled promises have run. */
const eventLoopTurn = () => new Promise<void>((resolve) => setTimeout(resolve, 0));

describe("a query", () => {
  let name: string;
  let loads: AnswerBadge[];
  let shown: QueryState<string>[];
  let runner: QueryRunner<string>;

  beforeEach(() => {
    name = "one";
    loads = [];
    shown = [];
    const load = () =>
      new Promise<string>((resolve, reject) => {
        loads.push({
          resolveWith: (data) => (resolve(data), eventLoopTurn()),
          rejectWith: (status) => (reject(new ApiError(status, "some", "why")), eventLoopTurn()),
        });
      });
    runner = new QueryRunner(
      () => ({ name, load }),
      (state) => shown.push(state),
    );
  });

  it("shows its data although invalidations come faster than responses", async () => {
    runner.refetch();
    for (let invalidate = 0; invalidate < 10; invalidate += 1) runner.refetch();
    expect(loads).toHaveLength(1);
    await loads[0]?.resolveWith("first");
    expect(shown.at(-1)?.data).toBe("first");
  });

  it("runs once more after invalidations during a load, whose result may be older", async () => {
    runner.refetch();
    for (let invalidate = 0; invalidate < 10; invalidate += 1) runner.refetch();
    await loads[0]?.resolveWith("old");
    expect(loads).toHaveLength(2);
    await loads[1]?.resolveWith("new");
    expect([loads.length, shown.at(-1)?.data]).toEqual([2, "new"]);
  });

  it("refetches at once when no load is running", async () => {
    runner.refetch();
    await loads[0]?.rejectWith(500);
    runner.refetch();
    expect(loads).toHaveLength(2);
  });

  it("drops a late result of another name", async () => {
    runner.refetch();
    runner.stop();
    name = "two";
    runner.refetch();
    expect(loads).toHaveLength(2);
    await loads[1]?.resolveWith("of two");
    await loads[0]?.resolveWith("of one");
    expect(shown).toEqual([{ name: "two", data: "of two", error: null }]);
  });

  it("keeps its data after transient errors, and removes it after others", async () => {
    const after = async (status: number) => {
      runner.refetch();
      await loads.at(-1)?.resolveWith("thing");
      runner.refetch();
      await loads.at(-1)?.rejectWith(status);
      return [shown.at(-1)?.data, shown.at(-1)?.error?.status];
    };
    for (const status of [0, 429, 500, 503]) expect(await after(status)).toEqual(["thing", status]);
    for (const status of [403, 404]) expect(await after(status)).toEqual([undefined, status]);
  });

  it("shows no data of another name after an error", async () => {
    runner.refetch();
    await loads[0]?.resolveWith("of one");
    runner.stop();
    name = "two";
    runner.refetch();
    await loads[1]?.rejectWith(503);
    expect([shown.at(-1)?.name, shown.at(-1)?.data]).toEqual(["two", undefined]);
  });
});
