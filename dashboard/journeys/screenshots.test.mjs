// Pictures of the main pages for the README. They are taken whenever the journeys run, and kept where SCREENSHOTS says.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { signedIn, stage, until, visit } from "./stage.mjs";

const FOLDER = process.env.SCREENSHOTS;
const TYPES = ["order.paid", "order.shipped", "refund.made", "customer.created"];
let on;
let delivery;

before(async () => {
  on = await stage();
  const app = "/v1/apps/bakery";
  await on.api("POST", "/v1/apps", { id: "bakery", name: "Corner Bakery" });
  const overrides = { retry: { waits: ["50ms", "1h"], jitter: "none" } };
  const add = (id, path, event_types) =>
    on.api("POST", `${app}/endpoints`, { id, url: `${on.receiver.url}${path}`, event_types, overrides });
  await add("shop", "/shop", ["*"]);
  await add("erp", "/erp", ["order.*"]);
  on.receiver.answers.set("/erp", { status: 503, body: "down for maintenance" });
  const events = Array.from({ length: 60 }, (_, at) => ({
    type: TYPES[at % TYPES.length],
    data: { order: 1000 + at, amount: 17.5, currency: "EUR" },
  }));
  await on.api("POST", `${app}/events/batch`, { events });
  const counted = async () => {
    const { totals } = await on.api("GET", `${app}/stats`);
    // A circuit opens after ten failures.
    return totals.delivered === events.length && totals.failed >= 10;
  };
  await until("everything is counted", counted, 20_000);
  const retrying = (await on.api("GET", `${app}/deliveries?status=retrying`)).data;
  delivery = retrying.sort((one, other) => other.attempt_count - one.attempt_count)[0].id;
});
after(() => on?.close());

const LOOKS = [
  ["light", { viewport: { width: 1280, height: 860 }, colorScheme: "light" }],
  ["dark", { viewport: { width: 1280, height: 860 }, colorScheme: "dark" }],
  ["phone", { viewport: { width: 390, height: 844 }, colorScheme: "light", isMobile: true }],
];

for (const [look, options] of LOOKS) {
  test(`the main pages have something to show (${look})`, async () => {
    const { page, wrongs, close } = await signedIn(on, "/", options);
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
      await page.screenshot({ path: join(FOLDER, `${name}-${look}.png`) });
    }
    assert.deepEqual(wrongs, []);
    await close();
  });
}
