import { describe, expect, it } from "vitest";
import { ApiError } from "../api/error";
import { textOf } from "../components/text-of.fixture";
import { portalBaseOf } from "../route/base";
import { PortalSignIn } from "./portal-sign-in";

describe("the portal sign-in page", () => {
  const screenText = (given: { isOpening?: boolean; error?: ApiError; signOutReason?: string }) =>
    textOf(PortalSignIn({ isOpening: false, error: null, signOutReason: null, onRetry: () => undefined, ...given }));
  const failure = (status: number, detail: string) => new ApiError(status, "some", detail);

  it("does not ask for a key", () => {
    const seen = [screenText({}), screenText({ isOpening: true }), screenText({ error: failure(401, "unknown key") })];
    for (const text of seen) expect(text).not.toMatch(/admin|posthaste dev|Sign in/i);
  });

  it("says why the link was rejected, and how to get another", () => {
    expect(screenText({ error: failure(401, "The link was revoked.") })).toMatch(
      /does not open.*The link was revoked\..*from where you came/,
    );
  });

  it("says after a reload or the end of a session how to come back", () => {
    expect(screenText({})).toMatch(/signed out.*from where you came/);
    expect(screenText({ signOutReason: "The link has expired." })).toContain("The link has expired.");
  });

  it("has a retry button only after transient errors", () => {
    for (const status of [0, 429, 503])
      expect(screenText({ error: failure(status, "why") })).toMatch(/right now.*why.*Try again$/);
    for (const status of [401, 403]) expect(screenText({ error: failure(status, "why") })).not.toContain("Try again");
  });
});

describe("the base of a path", () => {
  it("is the portal's, and empty elsewhere", () => {
    expect(["/portal/key_1", "/portal/key_1/apps/shop"].map(portalBaseOf)).toEqual(["/portal/key_1", "/portal/key_1"]);
    expect(["/", "/portal", "/portal/", "/portals/x", "/apps/portal/x", "/x/portal/key_1"].map(portalBaseOf).join("")).toBe("");
  });
});
