// Checks on every page that hostile strings appear as text and are never executed.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { startFullFixture, isForCustomers, openEverything, isSettled } from "./full-fixture.mjs";
import { hostileStrings } from "./hostile-strings.mjs";
import { signedIn, visit } from "./fixture.mjs";

let full;
let fixture;
let paths;
let portal;

before(async () => {
  full = await startFullFixture();
  ({ fixture, paths, portal } = full);
});
after(() => full?.close());

/** Returns the text of a page and the values of its fields. */
function pageText(page) {
  return page.evaluate(() => {
    const main = document.querySelector("main");
    const fields = [...main.querySelectorAll("input, textarea")].map((each) => each.value);
    return [main.textContent, ...fields].join("\n");
  });
}

async function loadAllRows(page) {
  const more = page.getByRole("button", { name: "Show more" });
  while (await more.count()) {
    const before = await page.locator("main tbody tr").count();
    await more.click();
    await page.waitForFunction((rows) => document.querySelectorAll("main tbody tr").length > rows, before);
  }
}

/** Visits pages, and returns the expected texts that they lack. */
async function missing(page, pages, base = "") {
  const absent = [];
  for (const { path, texts } of pages) {
    await visit(page, base + path, base);
    await isSettled(page);
    await openEverything(page);
    if (texts.length > 2) await loadAllRows(page);
    const text = await pageText(page);
    for (const each of texts) if (!text.includes(each)) absent.push(`${path}: ${each}`);
  }
  return absent;
}

async function assertNothingRan(page, violations) {
  assert.equal(await page.evaluate(() => globalThis.executed ?? 0), 0);
  assert.deepEqual(violations, []);
}

test("external text appears on pages, and is never executed", async () => {
  assert.ok(hostileStrings().length >= 200);
  const { page, violations, close } = await signedIn(fixture, "/");
  const every = paths.every.map((path) => ({ path, texts: [] }));
  const detailPages = paths.detailPages.map(({ path, texts, operators = [] }) => ({ path, texts: [...texts, ...operators] }));
  assert.deepEqual(await missing(page, [...every, ...paths.listPages, ...detailPages]), []);
  await assertNothingRan(page, violations);
  await close();
});

test("text in the address bar is never executed", async () => {
  const { page, violations, close } = await signedIn(fixture, "/");
  assert.deepEqual(await missing(page, paths.addressBarPages), []);
  await assertNothingRan(page, violations);
  await close();
});

test("external text on a customer's pages is never executed", async () => {
  const { base, key } = portal;
  const { page, violations, close } = await signedIn(fixture, base, { key });
  assert.equal((await page.locator(".brand").innerText()).trim(), paths.themeName.trim());
  const every = paths.every.filter(isForCustomers).map((path) => ({ path, texts: [] }));
  const listPages = paths.listPages.filter(({ path }) => ["/apps/shop/endpoints", "/apps/shop/events"].includes(path));
  const detailPages = paths.detailPages.filter(({ path }, at) => at % 3 === 0 && path.startsWith("/apps/shop/"));
  assert.deepEqual(await missing(page, [...every, ...listPages, ...detailPages], base), []);
  await assertNothingRan(page, violations);
  await close();
});
