import { expect, test } from "vitest";
import type { SearchResult } from "../api/schema";
import { pathOfResult } from "./search-result";

function result(kind: string, app: string | null, endpoint: string | null = null): SearchResult {
  return { kind, id: "a b", app_id: app, endpoint_id: endpoint };
}

test("every kind of search result has a page", () => {
  const pages: [string, string][] = [
    ["app", "/apps/shop"],
    ["endpoint", "/apps/shop/endpoints/a%20b"],
    ["event", "/apps/shop/events/a%20b"],
    ["delivery", "/apps/shop/deliveries/a%20b"],
    ["replay", "/apps/shop/replays/a%20b"],
    ["inspection", "/apps/shop/endpoints/ep-1/inspect"],
    ["notice", "/apps/shop/notices"],
    ["portal_link", "/apps/shop/portal"],
    ["audit_entry", "/apps/shop/audit"],
    ["key", "/keys"],
    ["event_type", "/event-types/a%20b"],
    ["contract", "/contracts/a%20b"],
  ];
  for (const [kind, page] of pages) expect(pathOfResult([result(kind, "shop", "ep-1")], null)).toBe(page);
  expect(pathOfResult([result("audit_entry", null)], null)).toBe("/audit");
});

test("a result in the current app comes first, and no result has no page", () => {
  const both = [result("event", "other"), result("event", "shop")];
  expect(pathOfResult(both, "shop")).toBe("/apps/shop/events/a%20b");
  expect(pathOfResult(both, "third")).toBe("/apps/other/events/a%20b");
  expect(pathOfResult([], "shop")).toBeNull();
});
