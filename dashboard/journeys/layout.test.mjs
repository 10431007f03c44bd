// Checks the layout of every page with axe: light and dark, desktop and phone.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { startFullFixture, isForCustomers, openEverything, isSettled } from "./full-fixture.mjs";
import { signedIn, waitUntil, visit } from "./fixture.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
let full;
let fixture;
let paths;
let portal;

before(async () => {
  full = await startFullFixture();
  ({ fixture, paths, portal } = full);
});
after(() => full?.close());

/** Returns a function that records layout problems of a page. */
async function layoutChecker(page, problems) {
  // axe runs through the debugger, because the page's policy allows no other script.
  const debug = await page.context().newCDPSession(page);
  await debug.send("Runtime.evaluate", { expression: AXE });
  return async (name) => {
    const tooWide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    if (tooWide > 0) problems.push(`${name} is ${tooWide} px too wide`);
    const expression = `axe.run(document, { resultTypes: ["violations"] }).then((all) => JSON.stringify(all.violations))`;
    const { result } = await debug.send("Runtime.evaluate", { expression, awaitPromise: true });
    for (const each of JSON.parse(result.value)) {
      if (["serious", "critical"].includes(each.impact))
        problems.push(`${name}: ${each.id}: ${each.nodes[0].html.slice(0, 200)}`);
    }
  };
}

const DISPLAYS = [
  ["a desktop in the light", { viewport: { width: 1280, height: 860 }, colorScheme: "light" }],
  ["a desktop in the dark", { viewport: { width: 1280, height: 860 }, colorScheme: "dark" }],
  ["a phone in the light", { viewport: { width: 360, height: 780 }, colorScheme: "light", isMobile: true }],
  ["a phone in the dark", { viewport: { width: 360, height: 780 }, colorScheme: "dark", isMobile: true }],
];

for (const [name, options] of DISPLAYS) {
  test(`every page fits ${name}, and axe finds nothing serious`, async () => {
    const { page, violations, close } = await signedIn(fixture, "/", options);
    const problems = [];
    const check = await layoutChecker(page, problems);
    for (const path of paths.every) {
      await visit(page, path);
      await isSettled(page);
      await openEverything(page);
      await check(path);
    }
    await visit(page, "/apps/shop/portal");
    await page.getByRole("button", { name: "Make a link" }).click();
    await page.getByRole("dialog").getByLabel("Accent colour").fill("blue");
    await check("an open dialog");
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    await check("the sign-in page");
    assert.deepEqual(problems, []);
    assert.deepEqual(violations, []);
    await close();
  });

  test(`a portal in a colour of its own fits ${name}, and axe finds nothing serious`, async () => {
    const { base, key } = portal;
    const { page, violations, close } = await signedIn(fixture, base, { key, ...options });
    const accent = () => page.evaluate(() => document.documentElement.style.getPropertyValue("--accent"));
    await waitUntil("it has a colour of its own", async () => /^#\w{6}$/.test(await accent()));
    const problems = [];
    const check = await layoutChecker(page, problems);
    for (const path of paths.every.filter(isForCustomers)) {
      await visit(page, base + path, base);
      await isSettled(page);
      await openEverything(page);
      await check(path);
    }
    assert.deepEqual(problems, []);
    assert.deepEqual(violations, []);
    await close();
  });
}
