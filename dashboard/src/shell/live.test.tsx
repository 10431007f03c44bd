import { expect, it } from "vitest";
import { standInForBrowser } from "../api/browser.fixture";
import { textOf } from "../components/text-of.fixture";

standInForBrowser();
const { isConnected } = await import("../api/connection");
const { liveness } = await import("../api/live");
const { Live, Lost } = await import("./live");

it("a page says in words when it may be old, also where only the stream broke", () => {
  const said = (isUp: boolean, how: typeof liveness.value) => {
    isConnected.value = isUp;
    liveness.value = how;
    return [textOf(Live()), textOf(Lost()).slice(0, 23)];
  };
  expect(said(true, "live")).toEqual(["Live", ""]);
  expect(said(true, "asking")).toEqual(["Every 5 s", ""]);
  expect(said(true, "lost")).toEqual(["Disconnected", "Live updates broke off "]);
  expect(said(false, "live")).toEqual(["Disconnected", "The server cannot be re"]);
});
