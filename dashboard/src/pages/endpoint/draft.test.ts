import { describe, expect, it } from "vitest";
import type { Endpoint } from "../../api/schema";
import { EMPTY_ENDPOINT_DRAFT, endpointChangesOf, endpointDraftOf, isDraftReady, newEndpointBody } from "./draft";

const ENDPOINT = {
  url: "https://a.example/",
  event_types: ["order.*", "user.made"],
  ordered: "none",
  rate_limit: { per_second: 50, burst: 10 },
  overrides: { retry: { waits: ["1m"] } },
} as unknown as Endpoint;

describe("an endpoint's draft", () => {
  const before = endpointDraftOf(ENDPOINT);

  it("sends only changed fields", () => {
    expect(endpointChangesOf(before, { ...before })).toEqual({});
    expect(endpointChangesOf(before, { ...before, description: " Shop ", overrides: " " })).toEqual({
      description: "Shop",
      overrides: null,
    });
  });

  it("sends the burst together with a new rate, as it would otherwise be reset", () => {
    expect(endpointChangesOf(before, { ...before, perSecond: "80" })).toEqual({ rate_limit: { per_second: 80, burst: 10 } });
    expect(endpointChangesOf(before, { ...before, burst: "20" })).toEqual({ rate_limit: { per_second: 50, burst: 20 } });
    expect(endpointChangesOf(before, { ...before, burst: "" })).toEqual({ rate_limit: { per_second: 50 } });
    expect(endpointChangesOf(before, { ...before, perSecond: "" })).toEqual({ rate_limit: null });
  });

  it("makes the body of a new endpoint from the filled-in fields", () => {
    const draft = { ...EMPTY_ENDPOINT_DRAFT, url: " https://a.example/ ", perSecond: "5" };
    expect(newEndpointBody(draft)).toEqual({ url: "https://a.example/", event_types: ["*"], rate_limit: { per_second: 5 } });
    expect([isDraftReady(draft), isDraftReady(EMPTY_ENDPOINT_DRAFT), isDraftReady({ ...draft, types: "a b!" })]).toEqual([
      true,
      false,
      false,
    ]);
  });
});
