// Every page, as everybody meets it: light and dark, desktop and phone, by axe, and with the worst strings from outside.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { furnish, ownContracts } from "./furnished.mjs";
import { hostile } from "./hostile.mjs";
import { signedIn, stage, until, visit } from "./stage.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const contracts = ownContracts();
let on;
let paths;
let portal;

before(async () => {
  on = await stage({ POSTHASTE_CONTRACTS_DIR: contracts.folder });
  paths = await furnish(on);
  // A colour of the kind that people choose, and that is too pale on anything but white.
  const theme = { name: paths.themeName, accent: "#1a73e8" };
  const { url } = await on.api("POST", "/v1/apps/shop/portal-links", { theme });
  const [, base, key] = /(\/portal\/[^#]+)#key=(.+)$/.exec(url);
  portal = { base, key };
});
after(async () => {
  await on?.close();
  contracts.remove();
});

/** What a customer sees too. */
const isForCustomers = (path) => /^\/(event-types|apps\/shop(?!\/(settings|audit|portal)))/.test(path);

/** The page is there, and nothing of it is still on its way. */
async function settled(page) {
  await page.waitForFunction(() => document.querySelector("main h1") !== null && document.querySelector(".skeleton") === null);
}

async function openEverything(page) {
  await page.evaluate(() => document.querySelectorAll("details").forEach((each) => (each.open = true)));
}

/** Writes down what is wrong with how a page looks. */
async function looker(page, found) {
  // Through the debugger, because the policy of the page lets no script in.
  const debug = await page.context().newCDPSession(page);
  await debug.send("Runtime.evaluate", { expression: AXE });
  return async (name) => {
    const tooWide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    if (tooWide > 0) found.push(`${name} is ${tooWide} px too wide`);
    const expression = `axe.run(document, { resultTypes: ["violations"] }).then((all) => JSON.stringify(all.violations))`;
    const { result } = await debug.send("Runtime.evaluate", { expression, awaitPromise: true });
    for (const each of JSON.parse(result.value)) {
      if (["serious", "critical"].includes(each.impact)) found.push(`${name}: ${each.id}: ${each.nodes[0].html.slice(0, 200)}`);
    }
  };
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
    const found = [];
    const look = await looker(page, found);
    for (const path of paths.every) {
      await visit(page, path);
      await settled(page);
      await openEverything(page);
      await look(path);
    }
    await visit(page, "/apps/shop/portal");
    await page.getByRole("button", { name: "Make a link" }).click();
    await page.getByRole("dialog").getByLabel("Accent colour").fill("blue");
    await look("an open dialog");
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    await look("the sign-in page");
    assert.deepEqual(found, []);
    assert.deepEqual(wrongs, []);
    await close();
  });

  test(`a portal in a colour of its own fits ${name}, and axe finds nothing serious`, async () => {
    const { base, key } = portal;
    const { page, wrongs, close } = await signedIn(on, base, { key, ...options });
    const accent = () => page.evaluate(() => document.documentElement.style.getPropertyValue("--accent"));
    await until("it has a colour of its own", async () => /^#\w{6}$/.test(await accent()));
    const found = [];
    const look = await looker(page, found);
    for (const path of paths.every.filter(isForCustomers)) {
      await visit(page, base + path, base);
      await settled(page);
      await openEverything(page);
      await look(path);
    }
    assert.deepEqual(found, []);
    assert.deepEqual(wrongs, []);
    await close();
  });
}

/** What a page says, with what stands in its fields. */
function said(page) {
  return page.evaluate(() => {
    const main = document.querySelector("main");
    const fields = [...main.querySelectorAll("input, textarea")].map((each) => each.value);
    return [main.textContent, ...fields].join("\n");
  });
}

async function readOn(page) {
  const more = page.getByRole("button", { name: "Show more" });
  while (await more.count()) {
    const before = await page.locator("main tbody tr").count();
    await more.click();
    await page.waitForFunction((rows) => document.querySelectorAll("main tbody tr").length > rows, before);
  }
}

/** Looks at pages, and gives back what they should have said and did not. */
async function missing(page, pages, base = "") {
  const absent = [];
  for (const { path, shows } of pages) {
    await visit(page, base + path, base);
    await settled(page);
    await openEverything(page);
    if (shows.length > 2) await readOn(page);
    const text = await said(page);
    for (const each of shows) if (!text.includes(each)) absent.push(`${path}: ${each}`);
  }
  return absent;
}

async function nothingRan(page, wrongs) {
  assert.equal(await page.evaluate(() => globalThis.executed ?? 0), 0);
  assert.deepEqual(wrongs, []);
}

test("nothing that came from outside is ever more than text, and it is there as text", async () => {
  assert.ok(hostile().length >= 200);
  const { page, wrongs, close } = await signedIn(on, "/");
  const every = paths.every.map((path) => ({ path, shows: [] }));
  const things = paths.things.map(({ path, shows, operators = [] }) => ({ path, shows: [...shows, ...operators] }));
  assert.deepEqual(await missing(page, [...every, ...paths.lists, ...things]), []);
  await nothingRan(page, wrongs);
  await close();
});

test("what stands in the address bar is never more than text", async () => {
  const { page, wrongs, close } = await signedIn(on, "/");
  assert.deepEqual(await missing(page, paths.asked), []);
  await nothingRan(page, wrongs);
  await close();
});

test("a customer's pages show as text what came from outside, too", async () => {
  const { base, key } = portal;
  const { page, wrongs, close } = await signedIn(on, base, { key });
  assert.equal((await page.locator(".brand").innerText()).trim(), paths.themeName.trim());
  const every = paths.every.filter(isForCustomers).map((path) => ({ path, shows: [] }));
  const lists = paths.lists.filter(({ path }) => ["/apps/shop/endpoints", "/apps/shop/events"].includes(path));
  const things = paths.things.filter(({ path }, at) => at % 3 === 0 && path.startsWith("/apps/shop/"));
  assert.deepEqual(await missing(page, [...every, ...lists, ...things], base), []);
  await nothingRan(page, wrongs);
  await close();
});
