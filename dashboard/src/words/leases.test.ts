import { expect, test } from "vitest";
import { leaseInWords } from "./leases";

test("a lease is told as what is left of it, and one that is over as what follows", () => {
  expect(leaseInWords({ lease_ms: 9400 })).toBe("9.4 s left");
  expect(leaseInWords({ lease_ms: 0 })).toBe("over: others take over");
  expect(leaseInWords({ lease_ms: null })).toBe("needs none");
  expect(leaseInWords({})).toBe("needs none");
});
