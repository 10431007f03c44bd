import { describe, expect, it } from "vitest";
import { begun, followed, saved, typed } from "./draft-state";

const [FIRST, SECOND, THIRD] = ["2026-11-16T06:00:00Z", "2026-11-16T06:00:01Z", "2026-11-16T06:00:02.5Z"];
const RECORD = { url: "https://a.example/", types: "order.*", isLive: true };

describe("a form whose record changes", () => {
  const filledIn = typed(begun(RECORD, FIRST), { url: "https://b.example/" });

  it("keeps what was typed when something else of the record changes, as an automatic switch-off does", () => {
    const { draft, isOvertaken } = followed(filledIn, RECORD, SECOND);
    expect([draft.url, isOvertaken]).toEqual(["https://b.example/", false]);
  });

  it("says so when a field changes, shows the new value, and keeps what was typed into others", () => {
    const { draft, isOvertaken } = followed(filledIn, { ...RECORD, types: "*", isLive: false }, SECOND);
    expect([draft, isOvertaken]).toEqual([{ url: "https://b.example/", types: "*", isLive: false }, true]);
  });

  it("keeps what was typed into the field that changed, and goes on saying so", () => {
    const once = followed(filledIn, { ...RECORD, url: "https://c.example/" }, SECOND);
    const twice = followed(once, { ...RECORD, url: "https://c.example/" }, THIRD);
    expect([twice.draft.url, twice.base.url, twice.isOvertaken]).toEqual(["https://b.example/", "https://c.example/", true]);
    expect(typed(twice, { url: "https://c.example/" }).isOvertaken).toBe(false);
  });

  it("just shows the new record where nothing was typed", () => {
    const next = followed(begun(RECORD, FIRST), { ...RECORD, types: "*" }, SECOND);
    expect([next.draft.types, next.isOvertaken]).toEqual(["*", false]);
  });

  it("is not set back by an answer that is older than what was seen", () => {
    const now = followed(filledIn, { ...RECORD, types: "new" }, THIRD);
    expect(followed(now, { ...RECORD, types: "old" }, SECOND)).toBe(now);
  });

  it("shows after saving what was made of it, and keeps what was typed since it was sent", () => {
    const sent = typed(filledIn, { types: " order.* " }).draft;
    const since = typed({ ...filledIn, draft: sent }, { isLive: false });
    const after = saved(since, sent, { ...RECORD, url: "https://b.example/" }, SECOND);
    expect(after.draft).toEqual({ url: "https://b.example/", types: "order.*", isLive: false });
    expect([after.base.isLive, after.isOvertaken]).toEqual([true, false]);
  });
});
