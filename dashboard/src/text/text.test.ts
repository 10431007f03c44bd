import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { attemptText } from "./attempts";
import { contrast, parseHex, readableAccent } from "./colour";
import type { ContractDocument } from "./contract-document";
import fixture from "./contracts.fixture.json";
import { parseHeaders } from "./headers";
import { phasesOf } from "./phases";
import { member, members, pretty } from "./json-text";
import { formatBytes, formatPercent } from "./numbers";
import { sortedJson } from "./sorted-json";
import { actionsFor } from "./states";
import { parsePatterns, matchesSubscription } from "./subscriptions";
import { LISTED_ENDPOINTS_MAX, successRateOf } from "./success-rate";
import { jitterBounds, timeRangeText, positionAt, scheduleOf, ticks } from "./timeline";
import {
  durationMs,
  fromDateTimeField,
  formatRelative,
  contractDuration,
  toDateTimeField,
  formatDuration,
  formatUtc,
} from "./times";

describe("times", () => {
  const now = Date.parse("2026-11-16T06:00:00Z");

  it("are shown in one unit, rounded down", () => {
    expect(formatRelative(now - 400, now)).toBe("now");
    expect(formatRelative(now - 59_900, now)).toBe("59 s ago");
    expect(formatRelative(now + 3_599_000, now)).toBe("in 59 m");
    expect(formatRelative(now - 49 * 3_600_000, now)).toBe("2 d ago");
  });

  it("that are durations have a fitting unit", () => {
    expect([0.155, 4.26, 151, 1200, 60_000, 5_400_000].map(formatDuration)).toEqual([
      "155 µs",
      "4.3 ms",
      "151 ms",
      "1.2 s",
      "1m",
      "1h30m",
    ]);
  });

  it("of contracts are parsed and written in the contracts' form", () => {
    expect([durationMs("100ms"), durationMs("5m"), durationMs("2d"), durationMs("5 m")]).toEqual([
      100,
      300_000,
      172_800_000,
      null,
    ]);
    expect([0, 500, 66_000, 160_560_000].map(contractDuration)).toEqual(["0", "500ms", "1m6s", "44h36m"]);
  });

  it("are converted to a form field and back", () => {
    expect(fromDateTimeField(toDateTimeField("2026-11-16T06:02:00.000Z"))).toBe("2026-11-16T06:02:00.000Z");
    expect([fromDateTimeField(""), fromDateTimeField("soon")]).toEqual([null, null]);
  });

  it("are shown in UTC too", () => {
    expect(formatUtc("2026-11-16T06:02:38.5Z")).toBe("2026-11-16 06:02:38.500 UTC");
    expect(formatUtc("2026-11-16T06:02:38Z")).toBe("2026-11-16 06:02:38 UTC");
  });
});

describe("a schedule", () => {
  const rounded = (text: string) => text.replace(/(\d+)ms/g, "$1ms");

  it.each(fixture.data.map((each) => [each.name, each] as const))("of contract %s equals the API's", (_, contract) => {
    const { attempts, end } = scheduleOf((contract.document as unknown as ContractDocument).retry);
    const expected = contract.timeline.attempts;
    expect(attempts.map(({ number, earliestMs, latestMs }) => [number, Math.round(earliestMs), Math.round(latestMs)])).toEqual(
      expected.map((each) => [each.number, each.earliest_ms, each.latest_ms]),
    );
    expect(attempts.map(timeRangeText).map(rounded)).toEqual(expected.map((each) => each.at));
    expect(timeRangeText(end)).toBe(contract.timeline.ends[0]?.at);
  });

  it("has no range without jitter, and a range from zero with full jitter", () => {
    expect([jitterBounds("none"), jitterBounds("full")]).toEqual([
      [1, 1],
      [0, 1],
    ]);
  });

  it("is drawn in order, from the left edge to the right", () => {
    const places = [0, 5000, 300_000, 86_400_000].map((ms) => positionAt(ms, 86_400_000));
    expect(places[0]).toBe(0);
    expect(places[3]).toBe(1);
    expect([...places].sort((a, b) => a - b)).toEqual(places);
  });

  it("has labels that do not overlap", () => {
    for (const end of [1000, 60_000, 4_860_000, 398_160_000]) {
      const at = ticks(end).map((tick) => tick.at);
      for (let each = 1; each < at.length; each += 1) expect(at[each]! - at[each - 1]!).toBeGreaterThanOrEqual(0.12);
    }
  });
});

describe("JSON text", () => {
  const odd = '{ "b": "é 😀 <\\u2028\\/", "a": {"z": 1.0, "y": 1e5, "x": [ ]}, "n":12345678901234567890, "b":[1,{"c":","}] }';

  it("is indented without changing its values", () => {
    expect(pretty('{"a":1.0,"b":[],"c":{"d":[1,2]}}')).toBe(
      '{\n  "a": 1.0,\n  "b": [],\n  "c": {\n    "d": [\n      1,\n      2\n    ]\n  }\n}',
    );
    expect(pretty(odd)).toContain("12345678901234567890");
    expect(JSON.parse(pretty(odd))).toEqual(JSON.parse(odd));
  });

  it("returns its members as written", () => {
    expect(members(odd)?.map(([name]) => name)).toEqual(["b", "a", "n", "b"]);
    expect(member(odd, "a")).toBe('{"z": 1.0, "y": 1e5, "x": [ ]}');
    expect(member(odd, "b")).toBe('[1,{"c":","}]');
    expect([members("[1]"), members("{}"), member("{}", "a")]).toEqual([null, [], null]);
  });

  it("is sorted as Python sorts it", () => {
    expect(sortedJson(odd)).toBe('{"a":{"x":[],"y":1e5,"z":1.0},"b":[1,{"c":","}],"n":12345678901234567890}');
    expect(sortedJson('{"é":"😀","z":" \\/"}')).toBe('{"z":" /","\\u00e9":"\\ud83d\\ude00"}');
  });
});

describe("the text of an attempt", () => {
  const attempt = { class: "http", success: false, status_code: 401, duration_ms: 12 };

  it("suggests rotating the secret after a 401 or 403", () => {
    for (const status_code of [401, 403]) expect(attemptText({ ...attempt, status_code }).advice).toContain("rotate the secret");
  });

  it("contains the time of a timeout", () => {
    expect(attemptText({ ...attempt, class: "timeout", status_code: null, duration_ms: 15_000 }).what).toContain("15 s");
  });

  it("exists for an unknown class", () => {
    expect(attemptText({ ...attempt, class: "odd", status_code: null }).what).toContain("odd");
  });
});

describe("the duration of an attempt", () => {
  it("is divided completely into phases", () => {
    const phases = phasesOf({ dns_ms: 1, connect_ms: 2, tls_ms: 3, first_byte_ms: 10, total_ms: 20 });
    expect(phases.map(({ name, ms }) => [name, ms])).toEqual([
      ["dns", 1],
      ["connect", 2],
      ["tls", 3],
      ["wait", 10],
      ["body", 4],
    ]);
  });

  it("counts as waiting if no response came, and has no phase that did not happen", () => {
    expect(phasesOf({ dns_ms: null, connect_ms: 5, total_ms: 15_000 }).map(({ name, ms }) => [name, ms])).toEqual([
      ["connect", 5],
      ["wait", 14_995],
    ]);
  });
});

describe("typed headers", () => {
  it("are parsed line by line, with colons in values kept", () => {
    expect(parseHeaders("Authorization: Bearer a:b\n\n x-env : prod ").headers).toEqual({
      Authorization: "Bearer a:b",
      "x-env": "prod",
    });
    expect(parseHeaders("no header").wrong).toContain("no header");
  });
});

describe("the actions of a delivery", () => {
  it("are those that the API allows", () => {
    expect(actionsFor("delivered", null)).toEqual({ retry: false, cancel: false, replay: true, close: false, delete: true });
    expect(actionsFor("held", null)).toEqual({ retry: false, cancel: true, replay: false, close: false, delete: false });
    expect(actionsFor("dead", "closed").close).toBe(false);
    expect(actionsFor("in_flight", null)).toEqual({ retry: false, cancel: false, replay: false, close: false, delete: false });
  });
});

describe("a subscription", () => {
  it("matches exactly, by prefix, or everything", () => {
    expect(matchesSubscription(["order.*"], "order.paid")).toBe(true);
    expect(matchesSubscription(["order.*"], "order")).toBe(false);
    expect(matchesSubscription(["order.*"], "orders.paid")).toBe(false);
    expect(matchesSubscription(["order.paid", "user.made"], "user.made")).toBe(true);
    expect(matchesSubscription(["*"], "anything")).toBe(true);
  });

  it("to every type excludes operational types, which must be named", () => {
    const disabled = "posthaste.endpoint.disabled";
    expect(matchesSubscription(["*", "endpoint.*", "posthaste.delivery.*"], disabled)).toBe(false);
    for (const pattern of [disabled, "posthaste.*", "posthaste.endpoint.*"])
      expect(matchesSubscription(["*", pattern], disabled)).toBe(true);
    expect(matchesSubscription(["*"], "posthastes.x")).toBe(true);
  });

  it("is parsed from typed text", () => {
    expect(parsePatterns("order.*, user.made\norder.*")).toEqual({ patterns: ["order.*", "user.made"], wrong: [] });
    expect(parsePatterns("or*der")).toEqual({ patterns: [], wrong: ["or*der"] });
    expect(parsePatterns(" ")).toEqual({ patterns: ["*"], wrong: [] });
  });
});

describe("numbers and colours", () => {
  it("never round up to 100 %", () => {
    expect([formatPercent(0.99999), formatPercent(1), formatPercent(0.5), formatPercent(null)]).toEqual([
      "99.99 %",
      "100 %",
      "50.0 %",
      "–",
    ]);
  });

  it("format sizes", () => {
    expect([formatBytes(512), formatBytes(1536), formatBytes(29_204_774_912)]).toEqual(["512 B", "1.5 KiB", "27.2 GiB"]);
  });

  it("make any accent readable on every background", () => {
    const [light = "", dark = ""] = readFileSync("src/style/tokens.css", "utf8").split('[data-theme="dark"]');
    for (const css of [light, dark]) {
      const token = (name: string) => new RegExp(`--${name}: (#\\w+);`).exec(css)![1]!;
      const grounds = { surface: token("surface"), others: [token("page"), token("sunken")] };
      for (const hex of ["#1a73e8", "#ffff00", "#000000", "#ffffff", "#3b5bdb", "#ff0000", "#808080"]) {
        const { accent, soft } = readableAccent(hex, grounds)!;
        for (const ground of [grounds.surface, soft, ...grounds.others]) {
          expect(contrast(parseHex(accent)!, parseHex(ground)!), `${hex} on ${ground}`).toBeGreaterThanOrEqual(4.5);
        }
      }
      expect(readableAccent("red", grounds)).toBeNull();
    }
  });

  it("leave a readable accent unchanged", () => {
    const grounds = { surface: "#ffffff", others: ["#f5f6f8"] };
    const alone = { accent: "#3450c4", soft: "#e7eaf8" };
    expect(readableAccent("#3450c4", grounds)).toEqual(alone);
    expect(readableAccent("#3450c4", { ...grounds, surface: "#fff" })).toEqual(alone);
  });
});

describe("an endpoint's success rate", () => {
  const listed = (length: number) => Array.from({ length }, (_, at) => ({ endpoint_id: `ep_${at}`, attempts: at }));

  it("is known if the endpoint is listed", () => {
    expect([successRateOf(listed(3), "ep_2"), successRateOf(listed(3), "ep_0")]).toEqual([
      { endpoint_id: "ep_2", attempts: 2 },
      "nothing sent",
    ]);
  });

  it("is unknown for others if the list is full", () => {
    expect([
      successRateOf(listed(LISTED_ENDPOINTS_MAX - 1), "ep_x"),
      successRateOf(listed(LISTED_ENDPOINTS_MAX), "ep_x"),
    ]).toEqual(["nothing sent", "not listed"]);
  });
});
