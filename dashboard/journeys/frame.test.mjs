// The portal in a frame: inside the pages of an allowed origin, and inside no others.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { startFixture, waitUntil } from "./fixture.mjs";

let fixture;
let link;
const cleanups = [];

before(async () => {
  const [allowed, other] = [await host(), await host()];
  fixture = { ...(await startFixture({ POSTHASTE_PORTAL_ORIGINS: allowed })), allowed, other };
  await fixture.api("POST", "/v1/apps", { id: "customer", name: "Customer" });
  await fixture.api("POST", "/v1/apps/customer/endpoints", { id: "shop", url: `${fixture.receiver.url}/framed` });
  const { url } = await fixture.api("POST", "/v1/apps/customer/portal-links", { theme: { name: "Corner Bakery" } });
  const { pathname, hash } = new URL(url);
  link = fixture.server + pathname + hash;
});
after(async () => {
  await fixture?.close();
  for (const each of cleanups) each();
});

/** Serves a page on its own origin, with a frame of the address in the query. */
async function host() {
  const http = createServer((incoming, outgoing) => {
    const shown = new URL(incoming.url, "http://localhost").searchParams.get("show") ?? "";
    const escaped = shown.replaceAll("&", "&amp;").replaceAll('"', "&quot;");
    outgoing.writeHead(200, { "content-type": "text/html" });
    outgoing.end(`<!doctype html><title>A shop</title><iframe src="${escaped}" width="1000" height="700"></iframe>`);
  });
  await new Promise((resolve) => http.listen(0, "127.0.0.1", resolve));
  cleanups.push(() => {
    http.closeAllConnections();
    http.close();
  });
  return `http://127.0.0.1:${http.address().port}`;
}

async function openFrame(origin, address) {
  const context = await fixture.browser.newContext();
  const page = await context.newPage();
  page.setDefaultTimeout(10_000);
  const consoleLines = [];
  page.on("console", (message) => consoleLines.push(message.text()));
  await page.goto(`${origin}/?show=${encodeURIComponent(address)}`);
  return { page, consoleLines, frame: page.frameLocator("iframe"), close: () => context.close() };
}

test("a page of an allowed origin shows the portal, which works there", async () => {
  const { page, frame, close } = await openFrame(fixture.allowed, link);
  await frame.getByText("Corner Bakery").first().waitFor();
  await frame.getByRole("link", { name: "Endpoints" }).click();
  await frame.getByRole("link", { name: /framed$/ }).click();
  await frame.getByRole("button", { name: "Send a test event" }).click();
  await frame.getByText("Delivered at attempt 1.").waitFor();
  assert.equal(new URL(page.url()).origin, fixture.allowed);
  await close();
});

for (const [what, origin, address] of [
  ["a page of another origin does not show the portal", () => fixture.other, () => link],
  [
    "the operator's pages are shown in no frame, not even by an allowed origin",
    () => fixture.allowed,
    () => `${fixture.server}/`,
  ],
]) {
  test(what, async () => {
    const { page, consoleLines, frame, close } = await openFrame(origin(), address());
    await waitUntil("the browser says why", () => consoleLines.some((each) => each.includes("frame-ancestors")));
    assert.match(page.frames()[1].url(), /^chrome-error:/);
    assert.equal(await frame.locator(".shell").count(), 0);
    await close();
  });
}
