// Stubs the browser globals that modules use on import, for tests without a browser. Import those modules afterwards.
import { vi } from "vitest";

export function stubBrowser(path = "/") {
  const document = Object.assign(new EventTarget(), { hidden: false, title: "" });
  const window = Object.assign(new EventTarget(), {
    location: { origin: "http://posthaste.test", href: `http://posthaste.test${path}`, pathname: path, search: "", hash: "" },
    history: { pushState: vi.fn(), replaceState: vi.fn() },
    open: vi.fn(),
    scrollTo: vi.fn(),
  });
  vi.stubGlobal("document", document);
  vi.stubGlobal("window", window);
  return { document, window };
}
