// Every page with the worst strings from outside: they are there, and never more than text.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { furnishedStage, isForCustomers, openEverything, settled } from "./everything.mjs";
import { hostile } from "./hostile.mjs";
import { signedIn, visit } from "./stage.mjs";

let world;
let on;
let paths;
let portal;

before(async () => {
  world = await furnishedStage();
  ({ on, paths, portal } = world);
});
after(() => world?.close());

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
