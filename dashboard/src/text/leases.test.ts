import { expect, test } from "vitest";
import { leaseText } from "./leases";

test("a lease is shown by the time left, and an expired one by what follows", () => {
  expect(leaseText({ lease_ms: 9400 })).toBe("9.4 s left");
  expect(leaseText({ lease_ms: 0 })).toBe("over: others take over");
  expect(leaseText({ lease_ms: null })).toBe("needs none");
  expect(leaseText({})).toBe("needs none");
});
