import { describe, expect, it } from "vitest";
import type { Notice } from "../api/schema";
import {
  type StateChange,
  type HealthHistory,
  type StateChangeKind,
  bucketText,
  bucketsOf,
  stateChangesOf,
  bucketStateOf,
  stripText,
} from "./health";

const HOUR = 3_600_000;
const START = Date.parse("2026-11-16T00:00:00Z");
const at = (hours: number) => new Date(START + hours * HOUR).toISOString();
const change = (kind: StateChangeKind, hours: number): StateChange => ({ atMs: START + hours * HOUR, kind, text: "" });

/** Counts are `attempts/failed`, an hour each. */
function stats(counts: string) {
  const series = counts.split(" ").map((each, hour) => {
    const [attempts = 0, failed = 0] = each.split("/").map(Number);
    return { at: at(hour), attempts, failed, dead: 0, expired: 0, delivered: attempts - failed, latency_ms: {} };
  });
  return { series, step_seconds: 3600 };
}

describe("a bucket's state", () => {
  it("is good up to one failure in a hundred, and bad over half of them", () => {
    const state = (attempts: number, failed: number) => bucketStateOf({ attempts, failed }, false);
    expect([state(1, 0), state(100, 1), state(100, 2), state(2, 1), state(100, 51), state(1, 1)]).toEqual([
      "good",
      "good",
      "some",
      "some",
      "most",
      "most",
    ]);
  });

  it("without traffic is off if the endpoint is known to have been disabled", () => {
    const states = (changes: StateChange[], isDisabledNow: boolean) =>
      bucketsOf({ stats: stats("0/0 0/0 1/0 0/0 0/0"), changes, isDisabledNow, bucketsMax: 72 }).map((each) => each.state);
    const off = [change("off", 1), change("warned", 2.2)];
    expect(states([...off, change("on", 3)], false)).toEqual(["none", "off", "good", "none", "none"]);
    // Disabled late in a bucket without traffic: the bucket ended disabled.
    expect(states([change("off", 4.9)], true)).toEqual(["none", "none", "good", "none", "off"]);
    expect(states(off, true)).toEqual(["none", "off", "good", "off", "off"]);
    expect(states(off, false)).toEqual(["none", "none", "good", "none", "none"]);
  });
});

describe("buckets", () => {
  it("are merged if there are too many, at times that stay when the window moves", () => {
    const counts = (of: ReturnType<typeof stats>, bucketsMax: number) =>
      bucketsOf({ stats: of, changes: [], isDisabledNow: false, bucketsMax }).map(
        ({ attempts, failed }) => `${attempts}/${failed}`,
      );
    const all = stats("1/0 2/1 3/3 4/0 5/5");
    expect(counts(all, 3)).toEqual(["3/1", "7/3", "5/5"]);
    expect(counts({ ...all, series: all.series.slice(1) }, 3)).toEqual(["2/1", "7/3", "5/5"]);
  });

  it("contain and describe the changes within them", () => {
    const changes = [change("degraded", 0), change("off", 1.5)];
    const [first, second] = bucketsOf({ stats: stats("4/1 0/0"), changes, isDisabledNow: true, bucketsMax: 72 });
    expect(bucketText(first!)).toMatch(/: 4 attempts, 1 failed, 75\.0 % succeeded\. Degraded at /);
    expect(bucketText(second!)).toMatch(/: switched off\. Switched off at /);
    expect(stripText([first!, second!])).toBe("Health over time, in 2 spans: some failed in 1, switched off in 1");
  });
});

describe("changes of state", () => {
  const notice = (kind: string, hours: number, reason: string | null = null): Notice => ({
    id: `ntc_${hours}`,
    app_id: "bakery",
    kind,
    at: at(hours),
    count: 1,
    text: kind,
    reason,
    endpoints: [],
  });
  const kinds = (history: Partial<HealthHistory>) =>
    stateChangesOf({ notices: [], enabledEntries: [], health: null, endpoint: { id: "shop" }, ...history }).map((each) => [
      each.kind,
      (each.atMs - START) / HOUR,
    ]);
  const enabledEntry = {
    id: "aud_1",
    at: at(5),
    key_id: "settings",
    scope: "admin",
    action: "endpoint.enabled",
    thing: "shop",
  };

  it("are read from notices and the audit log of the endpoint, oldest first", () => {
    const notices = [
      notice("endpoint.recovered", 6),
      notice("endpoint.disabled", 4),
      notice("delivery.dead", 3),
      notice("endpoint.warning", 2),
      notice("endpoint.degraded", 1, "failing"),
      notice("endpoint.degraded", 0, "degraded"),
    ];
    expect(kinds({ notices, enabledEntries: [enabledEntry, { ...enabledEntry, thing: "erp" }] })).toEqual([
      ["degraded", 0],
      ["failing", 1],
      ["warned", 2],
      ["off", 4],
      ["on", 5],
      ["recovered", 6],
    ]);
  });

  it("end with the current state, even if no notice reports it", () => {
    const off = { health: { state: "disabled", since: at(3) }, endpoint: { id: "shop", disabled_at: at(3) } };
    expect(kinds(off)).toEqual([["off", 3]]);
    expect(kinds({ ...off, notices: [notice("endpoint.disabled", 3)] })).toEqual([["off", 3]]);
    expect(kinds({ health: { state: "healthy", since: at(3) } })).toEqual([]);
    const notices = [notice("endpoint.disabled", 1)];
    expect(kinds({ notices, health: { state: "healthy", since: at(3) } })).toEqual([
      ["off", 1],
      ["on", 3],
    ]);
    expect(kinds({ notices, health: { state: "healthy", since: at(0) } })).toEqual([["off", 1]]);
    expect(kinds({ notices, enabledEntries: [enabledEntry], health: { state: "failing", since: at(6) } }).at(-1)).toEqual([
      "failing",
      6,
    ]);
  });
});
