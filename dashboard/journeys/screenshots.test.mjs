// Opens the main pages, and takes the README's screenshots of them if SCREENSHOTS names a folder.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { signedIn, startFixture, waitUntil, visit } from "./fixture.mjs";

const FOLDER = process.env.SCREENSHOTS;
const TYPES = ["order.paid", "order.shipped", "refund.made", "customer.created"];
let fixture;
let delivery;

before(async () => {
  fixture = await startFixture();
  const app = "/v1/apps/bakery";
  await fixture.api("POST", "/v1/apps", { id: "bakery", name: "Corner Bakery" });
  const overrides = { retry: { waits: ["50ms", "1h"], jitter: "none" } };
  const add = (id, path, event_types) =>
    fixture.api("POST", `${app}/endpoints`, { id, url: `${fixture.receiver.url}${path}`, event_types, overrides });
  await add("shop", "/shop", ["*"]);
  await add("erp", "/erp", ["order.*"]);
  fixture.receiver.answers.set("/erp", { status: 503, body: "down for maintenance" });
  const events = Array.from({ length: 60 }, (_, at) => ({
    type: TYPES[at % TYPES.length],
    data: { order: 1000 + at, amount: 17.5, currency: "EUR" },
  }));
  await fixture.api("POST", `${app}/events/batch`, { events });
  const counted = async () => {
    const { totals } = await fixture.api("GET", `${app}/stats`);
    // A circuit opens after ten failures.
    return totals.delivered === events.length && totals.failed >= 10;
  };
  await waitUntil("everything is counted", counted, 20_000);
  const retrying = (await fixture.api("GET", `${app}/deliveries?status=retrying`)).data;
  delivery = retrying.sort((one, other) => other.attempt_count - one.attempt_count)[0].id;
});
after(() => fixture?.close());

const DISPLAYS = [
  ["light", { viewport: { width: 1280, height: 860 }, colorScheme: "light" }],
  ["dark", { viewport: { width: 1280, height: 860 }, colorScheme: "dark" }],
  ["phone", { viewport: { width: 390, height: 844 }, colorScheme: "light", isMobile: true }],
];

for (const [display, options] of DISPLAYS) {
  test(`the main pages show data (${display})`, async () => {
    const { page, violations, close } = await signedIn(fixture, "/", options);
    const pages = {
      overview: "/?window=1h",
      app: "/apps/bakery?window=1h",
      endpoint: "/apps/bakery/endpoints/erp?window=1h",
      delivery: `/apps/bakery/deliveries/${delivery}`,
      deliveries: "/apps/bakery/deliveries",
    };
    for (const [name, path] of Object.entries(pages)) {
      await visit(page, path);
      await page.waitForFunction(() => document.querySelector(".skeleton") === null);
      if (["overview", "app", "endpoint"].includes(name)) await page.locator(".uplot canvas").first().waitFor();
      if (!FOLDER) continue;
      mkdirSync(FOLDER, { recursive: true });
      await page.screenshot({ path: join(FOLDER, `${name}-${display}.png`) });
    }
    assert.deepEqual(violations, []);
    await close();
  });
}
