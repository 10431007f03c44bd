import { describe, expect, it } from "vitest";
import { ApiError } from "../api/error";
import { QueryView } from "./query-view";
import { textOf } from "./text-of.fixture";

const failure = (status: number) => new ApiError(status, "some", "It is overloaded.");

describe("a query view", () => {
  const shown = (data: string | null | undefined, error: ApiError | null) =>
    QueryView({ query: { data, error, refetch: () => undefined }, children: (given) => `shown: ${given}` });

  it("shows the data, even if it is null", () => {
    expect([textOf(shown("thing", null)), textOf(shown(null, null))]).toEqual(["shown: thing", "shown: null"]);
  });

  it("shows the error and a retry button", () => {
    expect(textOf(shown(undefined, failure(503)))).toMatch(/It is overloaded\..*Try again$/);
  });

  it("shows the old data below the error of a refetch", () => {
    expect(textOf(shown("thing", failure(503)))).toMatch(/It is overloaded\..*shown: thing$/);
  });

  it("renders the data at the same position with and without an error, so that typed text stays", () => {
    const position = (error: ApiError | null) => shown("thing", error).props.children.indexOf("shown: thing");
    expect(position(failure(429))).toBe(position(null));
  });

  it("leaves a missing response to the shell", () => {
    expect(textOf(shown("thing", failure(0)))).toBe("shown: thing");
  });
});
