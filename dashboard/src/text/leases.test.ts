import { expect, test } from "vitest";
import { leaseText } from "./leases";

test("a lease is told as what is left of it, and one that is over as what follows", () => {
  expect(leaseText({ lease_ms: 9400 })).toBe("9.4 s left");
  expect(leaseText({ lease_ms: 0 })).toBe("over: others take over");
  expect(leaseText({ lease_ms: null })).toBe("needs none");
  expect(leaseText({})).toBe("needs none");
});
