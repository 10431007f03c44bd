import { expect, it } from "vitest";
import { stubBrowser } from "../api/browser.fixture";
import { textOf } from "../components/text-of.fixture";

stubBrowser();
const { isConnected } = await import("../api/connection");
const { streamState } = await import("../api/live-updates");
const { ConnectionIndicator, ConnectionBanner } = await import("./connection-status");

it("a page says that it may be outdated, even if only the stream broke", () => {
  const texts = (isUp: boolean, stream: typeof streamState.value) => {
    isConnected.value = isUp;
    streamState.value = stream;
    return [textOf(ConnectionIndicator()), textOf(ConnectionBanner()).slice(0, 23)];
  };
  expect(texts(true, "live")).toEqual(["Live", ""]);
  expect(texts(true, "polling")).toEqual(["Every 5 s", ""]);
  expect(texts(true, "lost")).toEqual(["Disconnected", "Live updates broke off "]);
  expect(texts(false, "live")).toEqual(["Disconnected", "The server cannot be re"]);
});
