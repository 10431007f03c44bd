// Every page, as everybody meets it: light and dark, desktop and phone, by axe, and with the worst strings from outside.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { hostile } from "./hostile.mjs";
import { signedIn, stage, until, visit } from "./stage.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
let on;
let paths;

before(async () => {
  on = await stage();
  paths = await furnish();
});
after(() => on?.close());

/** An app in which every page has something to show; what comes from outside is hostile. */
async function furnish() {
  const strings = hostile();
  const app = "/v1/apps/shop";
  await on.api("POST", "/v1/apps", { id: "shop", name: strings[0], metadata: { note: strings[1] } });
  const overrides = { retry: { waits: ["10ms"], jitter: "none" } };
  for (const [at, value] of strings.entries()) {
    const path = `/${at}?q=${encodeURIComponent(value)}`;
    // The API takes no control characters here; data and answers below keep theirs.
    const description = value.replace(/\p{Cc}/gu, " ");
    const body = { id: `ep-${at}`, url: on.receiver.url + path, description, event_types: [`type.${at}`], overrides };
    await on.api("POST", `${app}/endpoints`, body);
    const header = value.replace(/[^\x20-\x7e]/g, "?").slice(0, 200);
    on.receiver.answers.set(`/${at}`, { status: 500, headers: { "x-odd": header }, body: value });
  }
  const events = strings.map((value, at) => ({ type: `type.${at}`, data: { [value]: value, list: [value] } }));
  await on.api("POST", `${app}/events/batch`, { events });
  await on.api("POST", "/v1/event-types", { name: "type.0", description: strings[2], sample: { text: strings[3] } });
  await on.api("POST", "/v1/keys", { scope: "app", app_id: "shop", name: strings[4] });
  await on.api("POST", `${app}/replays`, { status: ["dead"], dry_run: false });
  await until(
    "all are dead",
    async () => (await on.api("GET", `${app}/deliveries?status=dead&limit=250`)).data.length >= strings.length,
    30_000,
  );
  // A notice with an address that no line has room for.
  const longest = strings.findIndex((each) => each.length >= 500);
  await on.api("POST", `${app}/endpoints/ep-${longest}/disable`);
  const deliveries = (await on.api("GET", `${app}/deliveries?limit=250`)).data;
  const replay = (await on.api("GET", `${app}/replays`)).data[0].id;
  return {
    deliveries: deliveries.map((each) => `/apps/shop/deliveries/${each.id}`),
    every: [
      "/",
      "/apps",
      "/contracts",
      "/contracts/standard",
      "/event-types",
      "/event-types/type.0",
      "/keys",
      "/audit",
      "/notices",
      "/system",
      "/apps/shop",
      "/apps/shop/settings",
      "/apps/shop/audit",
      "/apps/shop/notices",
      "/apps/shop/portal",
      "/apps/shop/endpoints",
      "/apps/shop/endpoints/ep-0",
      "/apps/shop/endpoints/ep-0/deliveries",
      "/apps/shop/endpoints/ep-0/dead-letters",
      "/apps/shop/endpoints/ep-0/inspect",
      "/apps/shop/endpoints/ep-0/verify",
      "/apps/shop/endpoints/ep-0/settings",
      "/apps/shop/events",
      `/apps/shop/events/${deliveries[0].event_id}`,
      "/apps/shop/deliveries",
      `/apps/shop/deliveries/${deliveries[0].id}`,
      "/apps/shop/dead-letters",
      "/apps/shop/replays",
      `/apps/shop/replays/${replay}`,
      "/nowhere",
    ],
  };
}

/** The page is there, and nothing of it is still on its way. */
async function settled(page) {
  await page.waitForFunction(() => document.querySelector("main h1") !== null && document.querySelector(".skeleton") === null);
}

async function openEverything(page) {
  await page.evaluate(() => document.querySelectorAll("details").forEach((each) => (each.open = true)));
}

const LOOKS = [
  ["a desktop in the light", { viewport: { width: 1280, height: 860 }, colorScheme: "light" }],
  ["a desktop in the dark", { viewport: { width: 1280, height: 860 }, colorScheme: "dark" }],
  ["a phone in the light", { viewport: { width: 360, height: 780 }, colorScheme: "light", isMobile: true }],
  ["a phone in the dark", { viewport: { width: 360, height: 780 }, colorScheme: "dark", isMobile: true }],
];

for (const [name, options] of LOOKS) {
  test(`every page fits ${name}, and axe finds nothing serious`, async () => {
    const { page, wrongs, close } = await signedIn(on, "/", options);
    // Through the debugger, because the policy of the page lets no script in.
    const debug = await page.context().newCDPSession(page);
    await debug.send("Runtime.evaluate", { expression: AXE });
    const found = [];
    for (const path of paths.every) {
      await visit(page, path);
      await settled(page);
      await openEverything(page);
      const tooWide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      if (tooWide > 0) found.push(`${path} is ${tooWide} px too wide`);
      const expression = `axe.run(document, { resultTypes: ["violations"] }).then((all) => JSON.stringify(all.violations))`;
      const { result } = await debug.send("Runtime.evaluate", { expression, awaitPromise: true });
      for (const each of JSON.parse(result.value)) {
        if (["serious", "critical"].includes(each.impact)) found.push(`${path}: ${each.id}: ${each.nodes[0].html.slice(0, 200)}`);
      }
    }
    assert.deepEqual(found, []);
    assert.deepEqual(wrongs, []);
    await close();
  });
}

test("nothing that came from outside is ever more than text", async () => {
  assert.ok(hostile().length >= 200);
  const { page, wrongs, close } = await signedIn(on, "/");
  for (const path of [...paths.every, ...paths.deliveries]) {
    await visit(page, path);
    await settled(page);
    await openEverything(page);
  }
  const made = await page.evaluate(() => globalThis.executed ?? 0);
  assert.equal(made, 0);
  assert.deepEqual(wrongs, []);
  await close();
});
