// The portal in a frame: inside the pages of an allowed origin, and inside no others.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { stage, until } from "./stage.mjs";

let on;
let link;
const closers = [];

before(async () => {
  const [allowed, other] = [await host(), await host()];
  on = { ...(await stage({ POSTHASTE_PORTAL_ORIGINS: allowed })), allowed, other };
  await on.api("POST", "/v1/apps", { id: "customer", name: "Customer" });
  await on.api("POST", "/v1/apps/customer/endpoints", { id: "shop", url: `${on.receiver.url}/framed` });
  const { url } = await on.api("POST", "/v1/apps/customer/portal-links", { theme: { name: "Corner Bakery" } });
  const { pathname, hash } = new URL(url);
  link = on.server + pathname + hash;
});
after(async () => {
  await on?.close();
  for (const each of closers) each();
});

/** Somebody's page, on an origin of its own, that shows what the query says in a frame. */
async function host() {
  const http = createServer((incoming, outgoing) => {
    const shown = new URL(incoming.url, "http://localhost").searchParams.get("show") ?? "";
    const escaped = shown.replaceAll("&", "&amp;").replaceAll('"', "&quot;");
    outgoing.writeHead(200, { "content-type": "text/html" });
    outgoing.end(`<!doctype html><title>A shop</title><iframe src="${escaped}" width="1000" height="700"></iframe>`);
  });
  await new Promise((resolve) => http.listen(0, "127.0.0.1", resolve));
  closers.push(() => {
    http.closeAllConnections();
    http.close();
  });
  return `http://127.0.0.1:${http.address().port}`;
}

async function shownBy(origin, address) {
  const context = await on.browser.newContext();
  const page = await context.newPage();
  page.setDefaultTimeout(10_000);
  const said = [];
  page.on("console", (message) => said.push(message.text()));
  await page.goto(`${origin}/?show=${encodeURIComponent(address)}`);
  return { page, said, frame: page.frameLocator("iframe"), close: () => context.close() };
}

test("a page of an allowed origin shows the portal, which works there", async () => {
  const { page, frame, close } = await shownBy(on.allowed, link);
  await frame.getByText("Corner Bakery").first().waitFor();
  await frame.getByRole("link", { name: "Endpoints" }).click();
  await frame.getByRole("link", { name: /framed$/ }).click();
  await frame.getByRole("button", { name: "Send a test event" }).click();
  await frame.getByText("Delivered at attempt 1.").waitFor();
  assert.equal(new URL(page.url()).origin, on.allowed);
  await close();
});

for (const [what, origin, address] of [
  ["a page of another origin does not show the portal", () => on.other, () => link],
  ["the operator's pages are shown in no frame, not even by an allowed origin", () => on.allowed, () => `${on.server}/`],
]) {
  test(what, async () => {
    const { page, said, frame, close } = await shownBy(origin(), address());
    await until("the browser says why", () => said.some((each) => each.includes("frame-ancestors")));
    assert.match(page.frames()[1].url(), /^chrome-error:/);
    assert.equal(await frame.locator(".shell").count(), 0);
    await close();
  });
}
