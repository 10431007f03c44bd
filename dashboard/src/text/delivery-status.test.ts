import { describe, expect, it } from "vitest";
import type { Delivery } from "../api/schema";
import type { ContractDocument } from "./contract";
import fixture from "./contracts.fixture.json";
import { storyOf, waitText } from "./delivery-status";

const contract = (name: string) => fixture.data.find((each) => each.name === name)?.document as unknown as ContractDocument;
const delivery = (status: string, more: Partial<Delivery> = {}): Delivery => ({
  id: "dlv_1",
  event_id: "evt_1",
  event_type: "order.paid",
  endpoint_id: "ep_1",
  status,
  contract_status: status,
  attempt_count: 2,
  created_at: "2026-11-16T06:00:00Z",
  last_error: "HTTP 503",
  ...more,
});

const NOW = Date.parse("2026-11-16T06:04:00Z");

describe("a delivery's story", () => {
  it("says which attempt comes next, and why then", () => {
    const story = storyOf(delivery("retrying", { next_attempt_at: "2026-11-16T06:05:00Z" }), contract("standard"), NOW);
    expect(story.text).toBe("Attempt 2 failed (HTTP 503). The contract waits 4m to 6m after it, so attempt 3 of 10 comes");
    expect(story.nextAt).toBe("2026-11-16T06:05:00Z");
  });

  it("does not promise what was due already", () => {
    const story = storyOf(delivery("retrying", { next_attempt_at: "2026-11-16T06:03:59Z" }), contract("standard"), NOW);
    expect(story.text).toContain("attempt 3 of 10 was due");
  });

  it("tells a retry by hand from the schedule", () => {
    expect(storyOf(delivery("retrying"), contract("standard"), NOW).text).toContain("by hand");
  });

  it("tells of the last wait before it is dead", () => {
    expect(storyOf(delivery("retrying", { attempt_count: 5 }), contract("orientedos"), NOW).text).toContain(
      "waits 6h before it is dead",
    );
  });

  it("has the reason of an end in it", () => {
    expect(storyOf(delivery("dead", { reason: "exhausted" }), null, NOW).text).toContain("every attempt");
    expect(storyOf(delivery("cancelled", { reason: "endpoint_deleted" }), null, NOW).text).toContain("endpoint was deleted");
  });

  it("gives exact waits where there is no jitter", () => {
    expect([waitText("5m", "none"), waitText("10s", "full")]).toEqual(["5m", "0 to 10s"]);
  });
});
