import { describe, expect, it } from "vitest";
import { matchPath } from "./match";
import { paths } from "./paths";
import { withChanges, pickQuery } from "./query-string";

describe("a path", () => {
  it("returns its parts decoded", () => {
    const id = "order:10/01~%2F é";
    expect(matchPath("/apps/:app/events/:event", paths.event("shop", id))).toEqual({ app: "shop", event: id });
  });

  it("matches as a whole, with or without a trailing slash", () => {
    expect(matchPath("/apps/:app", "/apps/shop/")).toEqual({ app: "shop" });
    expect(matchPath("/apps/:app", "/apps")).toBeNull();
    expect(matchPath("/apps/:app", "/apps/shop/events")).toBeNull();
    expect(matchPath("/", "/")).toEqual({});
  });

  it("with invalid encoding does not match", () => {
    expect(matchPath("/apps/:app", "/apps/%zz")).toBeNull();
  });
});

describe("filters", () => {
  it("are written readably into the query string", () => {
    const query = new URLSearchParams("status=dead&cursor=x");
    expect(withChanges(query, { status: "dead,retrying", cursor: null, from: "2026-11-16T06:00:00Z" })).toBe(
      "?status=dead,retrying&from=2026-11-16T06:00:00Z",
    );
    expect(withChanges(query, { status: "", cursor: undefined })).toBe("");
  });

  it("are read back from the query string unchanged", () => {
    const text = withChanges(new URLSearchParams(), { event_type: "a&b=c d", id: "x,y:z" });
    expect(pickQuery(new URLSearchParams(text), ["event_type", "id", "none"])).toEqual({ event_type: "a&b=c d", id: "x,y:z" });
  });
});
