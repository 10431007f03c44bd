import { describe, expect, it } from "vitest";
import type { Delivery } from "../api/schema";
import type { ContractDocument } from "./contract-document";
import fixture from "./contracts.fixture.json";
import { deliverySummaryOf, waitText } from "./delivery-summary";

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

describe("a delivery's summary", () => {
  it("says which attempt comes next, and why at that time", () => {
    const summary = deliverySummaryOf(
      delivery("retrying", { next_attempt_at: "2026-11-16T06:05:00Z" }),
      contract("standard"),
      NOW,
    );
    expect(summary.text).toBe("Attempt 2 failed (HTTP 503). The contract waits 4m to 6m after it, so attempt 3 of 10 comes");
    expect(summary.nextAt).toBe("2026-11-16T06:05:00Z");
  });

  it("says that an overdue attempt was due", () => {
    const summary = deliverySummaryOf(
      delivery("retrying", { next_attempt_at: "2026-11-16T06:03:59Z" }),
      contract("standard"),
      NOW,
    );
    expect(summary.text).toContain("attempt 3 of 10 was due");
  });

  it("distinguishes a manual retry from the schedule", () => {
    expect(deliverySummaryOf(delivery("retrying"), contract("standard"), NOW).text).toContain("by hand");
  });

  it("mentions the last wait before it is dead", () => {
    expect(deliverySummaryOf(delivery("retrying", { attempt_count: 5 }), contract("orientedos"), NOW).text).toContain(
      "waits 6h before it is dead",
    );
  });

  it("contains the reason of the end", () => {
    expect(deliverySummaryOf(delivery("dead", { reason: "exhausted" }), null, NOW).text).toContain("every attempt");
    expect(deliverySummaryOf(delivery("cancelled", { reason: "endpoint_deleted" }), null, NOW).text).toContain(
      "endpoint was deleted",
    );
  });

  it("gives exact waits where there is no jitter", () => {
    expect([waitText("5m", "none"), waitText("10s", "full")]).toEqual(["5m", "0 to 10s"]);
  });
});
