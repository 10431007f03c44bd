import { expect, it } from "vitest";
import type { App } from "../api/schema";
import { appChangesOf, appDraftOf } from "./app-draft";

it("an app's draft sends only changed fields, and its quota as a whole", () => {
  const app = { name: "Shop", livemode: true, quota: { events_per_second: 5, bytes_per_second: 900 } };
  const before = appDraftOf(app as Partial<App> as App);
  expect(appChangesOf(before, { ...before })).toEqual({});
  expect(appChangesOf(before, { ...before, name: " Store ", isLive: false })).toEqual({ name: "Store", livemode: false });
  expect(appChangesOf(before, { ...before, events: "6" })).toEqual({ quota: { events_per_second: 6, bytes_per_second: 900 } });
  expect(appChangesOf(before, { ...before, events: "", bytes: "" })).toEqual({ quota: null });
});
