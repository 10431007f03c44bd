import { describe, expect, it } from "vitest";
import type { Endpoint } from "../../api/schema";
import { EMPTY_DRAFT, changesOf, draftOf, isDraftReady, newOf } from "./draft";

const ENDPOINT = {
  url: "https://a.example/",
  event_types: ["order.*", "user.made"],
  ordered: "none",
  rate_limit: { per_second: 50, burst: 10 },
  overrides: { retry: { waits: ["1m"] } },
} as unknown as Endpoint;

describe("an endpoint's draft", () => {
  const before = draftOf(ENDPOINT);

  it("sends nothing that was not changed", () => {
    expect(changesOf(before, { ...before })).toEqual({});
    expect(changesOf(before, { ...before, description: " Shop ", overrides: " " })).toEqual({
      description: "Shop",
      overrides: null,
    });
  });

  it("sends the burst along with another rate, which would else be a second's worth", () => {
    expect(changesOf(before, { ...before, perSecond: "80" })).toEqual({ rate_limit: { per_second: 80, burst: 10 } });
    expect(changesOf(before, { ...before, burst: "20" })).toEqual({ rate_limit: { per_second: 50, burst: 20 } });
    expect(changesOf(before, { ...before, burst: "" })).toEqual({ rate_limit: { per_second: 50 } });
    expect(changesOf(before, { ...before, perSecond: "" })).toEqual({ rate_limit: null });
  });

  it("makes a new one out of what was filled in", () => {
    const draft = { ...EMPTY_DRAFT, url: " https://a.example/ ", perSecond: "5" };
    expect(newOf(draft)).toEqual({ url: "https://a.example/", event_types: ["*"], rate_limit: { per_second: 5 } });
    expect([isDraftReady(draft), isDraftReady(EMPTY_DRAFT), isDraftReady({ ...draft, types: "a b!" })]).toEqual([
      true,
      false,
      false,
    ]);
  });
});
