import { describe, expect, it } from "vitest";
import { newDraft, withRecord, withSaved, withEdits } from "./draft-state";

const [FIRST, SECOND, THIRD] = ["2026-11-16T06:00:00Z", "2026-11-16T06:00:01Z", "2026-11-16T06:00:02.5Z"];
const RECORD = { url: "https://a.example/", types: "order.*", isLive: true };

describe("a form whose record changes", () => {
  const filledIn = withEdits(newDraft(RECORD, FIRST), { url: "https://b.example/" });

  it("keeps edits when only fields outside the form change", () => {
    const { draft, isOutdated } = withRecord(filledIn, RECORD, SECOND);
    expect([draft.url, isOutdated]).toEqual(["https://b.example/", false]);
  });

  it("is outdated when a field changes, shows its new value, and keeps edits of other fields", () => {
    const { draft, isOutdated } = withRecord(filledIn, { ...RECORD, types: "*", isLive: false }, SECOND);
    expect([draft, isOutdated]).toEqual([{ url: "https://b.example/", types: "*", isLive: false }, true]);
  });

  it("keeps the edit of a changed field, and stays outdated", () => {
    const once = withRecord(filledIn, { ...RECORD, url: "https://c.example/" }, SECOND);
    const twice = withRecord(once, { ...RECORD, url: "https://c.example/" }, THIRD);
    expect([twice.draft.url, twice.base.url, twice.isOutdated]).toEqual(["https://b.example/", "https://c.example/", true]);
    expect(withEdits(twice, { url: "https://c.example/" }).isOutdated).toBe(false);
  });

  it("shows the new record if nothing was edited", () => {
    const next = withRecord(newDraft(RECORD, FIRST), { ...RECORD, types: "*" }, SECOND);
    expect([next.draft.types, next.isOutdated]).toEqual(["*", false]);
  });

  it("ignores a record older than the last one seen", () => {
    const now = withRecord(filledIn, { ...RECORD, types: "new" }, THIRD);
    expect(withRecord(now, { ...RECORD, types: "old" }, SECOND)).toBe(now);
  });

  it("shows the saved record, and keeps edits made since it was sent", () => {
    const sent = withEdits(filledIn, { types: " order.* " }).draft;
    const since = withEdits({ ...filledIn, draft: sent }, { isLive: false });
    const after = withSaved(since, sent, { ...RECORD, url: "https://b.example/" }, SECOND);
    expect(after.draft).toEqual({ url: "https://b.example/", types: "order.*", isLive: false });
    expect([after.base.isLive, after.isOutdated]).toEqual([true, false]);
  });
});
