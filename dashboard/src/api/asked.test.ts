import { beforeEach, describe, expect, it } from "vitest";
import { Asking, type Known } from "./asked";
import { Refusal } from "./problem";

type AnswerBadge = { give: (data: string) => Promise<void>; refuse: (status: number) => Promise<void> };

/** Everything that follows from a settled promise has happened after a turn of the event loop. */
const settled = () => new Promise<void>((resolve) => setTimeout(resolve, 0));

describe("what a view shows", () => {
  let name: string;
  let questions: AnswerBadge[];
  let shown: Known<string>[];
  let asking: Asking<string>;

  beforeEach(() => {
    name = "one";
    questions = [];
    shown = [];
    const ask = () =>
      new Promise<string>((resolve, reject) => {
        questions.push({
          give: (data) => (resolve(data), settled()),
          refuse: (status) => (reject(new Refusal(status, "some", "why")), settled()),
        });
      });
    asking = new Asking(
      () => ({ name, ask }),
      (known) => shown.push(known),
    );
  });

  it("appears although hints come faster than answers", async () => {
    asking.again();
    for (let hint = 0; hint < 10; hint += 1) asking.again();
    expect(questions).toHaveLength(1);
    await questions[0]?.give("first");
    expect(shown.at(-1)?.data).toBe("first");
  });

  it("is asked for once more after hints that came meanwhile, because the answer may be older", async () => {
    asking.again();
    for (let hint = 0; hint < 10; hint += 1) asking.again();
    await questions[0]?.give("old");
    expect(questions).toHaveLength(2);
    await questions[1]?.give("new");
    expect([questions.length, shown.at(-1)?.data]).toEqual([2, "new"]);
  });

  it("is asked for again at once when nothing is in flight", async () => {
    asking.again();
    await questions[0]?.refuse(500);
    asking.again();
    expect(questions).toHaveLength(2);
  });

  it("is never an answer to another name, however late", async () => {
    asking.again();
    asking.stop();
    name = "two";
    asking.again();
    expect(questions).toHaveLength(2);
    await questions[1]?.give("of two");
    await questions[0]?.give("of one");
    expect(shown).toEqual([{ name: "two", data: "of two", refusal: null }]);
  });

  it("stays on show while it cannot be had, and goes when it is gone", async () => {
    const after = async (status: number) => {
      asking.again();
      await questions.at(-1)?.give("thing");
      asking.again();
      await questions.at(-1)?.refuse(status);
      return [shown.at(-1)?.data, shown.at(-1)?.refusal?.status];
    };
    for (const status of [0, 429, 500, 503]) expect(await after(status)).toEqual(["thing", status]);
    for (const status of [403, 404]) expect(await after(status)).toEqual([undefined, status]);
  });

  it("is not what another name had, when it cannot be had", async () => {
    asking.again();
    await questions[0]?.give("of one");
    asking.stop();
    name = "two";
    asking.again();
    await questions[1]?.refuse(503);
    expect([shown.at(-1)?.name, shown.at(-1)?.data]).toEqual(["two", undefined]);
  });
});
