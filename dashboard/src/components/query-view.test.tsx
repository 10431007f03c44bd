import { describe, expect, it } from "vitest";
import { ApiError } from "../api/error";
import { QueryView } from "./query-view";
import { textOf } from "./text-of.fixture";

const failure = (status: number) => new ApiError(status, "some", "It is overloaded.");

describe("what was asked for", () => {
  const shown = (data: string | null | undefined, error: ApiError | null) =>
    QueryView({ query: { data, error, refetch: () => undefined }, children: (given) => `shown: ${given}` });

  it("is shown, also if that is that there is none", () => {
    expect([textOf(shown("thing", null)), textOf(shown(null, null))]).toEqual(["shown: thing", "shown: null"]);
  });

  it("says why it cannot be had, and offers to try again", () => {
    expect(textOf(shown(undefined, failure(503)))).toMatch(/It is overloaded\..*Try again$/);
  });

  it("stays on show under why it could not be had anew", () => {
    expect(textOf(shown("thing", failure(503)))).toMatch(/It is overloaded\..*shown: thing$/);
  });

  it("is at the same place with trouble and without, so that what is typed into it stays", () => {
    const position = (error: ApiError | null) => shown("thing", error).props.children.indexOf("shown: thing");
    expect(position(failure(429))).toBe(position(null));
  });

  it("leaves it to the shell to say that nothing answers", () => {
    expect(textOf(shown("thing", failure(0)))).toBe("shown: thing");
  });
});
