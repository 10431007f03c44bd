import { describe, expect, it, vi } from "vitest";
import { stubBrowser } from "../api/browser.fixture";

const { document, window } = stubBrowser("/portal/key_1/apps/shop");
vi.stubGlobal("Element", class extends EventTarget {});
const { currentPath, interceptLinks, navigate, isPortalAddress, openInNewTab } = await import("./router");

describe("a portal's pages stay below its address", () => {
  it("on navigation and in a new tab", () => {
    expect([isPortalAddress, currentPath.value]).toEqual([true, "/apps/shop"]);
    navigate("/apps/shop/events");
    expect(window.history.pushState).toHaveBeenCalledWith(null, "", "/portal/key_1/apps/shop/events");
    openInNewTab("/apps/shop/deliveries/dlv_1");
    expect(window.open).toHaveBeenCalledWith("/portal/key_1/apps/shop/deliveries/dlv_1", "_blank", "noopener");
  });

  it("however a link is clicked", () => {
    interceptLinks();
    const link = {
      target: "",
      hasAttribute: () => false,
      origin: window.location.origin,
      pathname: "/apps/shop/replays",
      search: "",
    };
    const target = Object.assign(new Element(), { closest: () => link });
    const press = (type: string, how: Partial<MouseEvent>) => {
      const event = Object.assign(new Event(type, { cancelable: true }), { button: 0, ...how });
      Object.defineProperty(event, "target", { value: target });
      document.dispatchEvent(event);
      return event.defaultPrevented;
    };
    for (const how of [{ ctrlKey: true }, { metaKey: true }, { shiftKey: true }]) expect(press("click", how)).toBe(true);
    expect(press("auxclick", { button: 1 })).toBe(true);
    expect(window.open.mock.calls.slice(-4).map(([to]) => to)).toEqual(Array(4).fill("/portal/key_1/apps/shop/replays"));
    expect([press("auxclick", { button: 2 }), press("click", { altKey: true })]).toEqual([false, false]);
    window.open.mockClear();
    expect([press("click", {}), window.open.mock.calls]).toEqual([true, []]);
    expect(window.history.pushState).toHaveBeenLastCalledWith(null, "", "/portal/key_1/apps/shop/replays");
  });
});
