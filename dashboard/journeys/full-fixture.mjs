// A server with data for every page, and a portal with its own colour.
import { createData, ownContracts } from "./hostile-data.mjs";
import { startFixture } from "./fixture.mjs";

export async function startFullFixture() {
  const contracts = ownContracts();
  const fixture = await startFixture({ POSTHASTE_CONTRACTS_DIR: contracts.folder });
  const paths = await createData(fixture);
  // A common colour that is too pale on any background but white.
  const theme = { name: paths.themeName, accent: "#1a73e8" };
  const { url } = await fixture.api("POST", "/v1/apps/shop/portal-links", { theme });
  const [, base, key] = /(\/portal\/[^#]+)#key=(.+)$/.exec(url);
  const close = async () => {
    await fixture.close();
    contracts.remove();
  };
  return { fixture, paths, portal: { base, key }, close };
}

/** Whether customers may see a path too. */
export const isForCustomers = (path) => /^\/(event-types|apps\/shop(?!\/(settings|audit|portal)))/.test(path);

/** Waits until the page is shown and no part of it is loading. */
export async function isSettled(page) {
  await page.waitForFunction(() => document.querySelector("main h1") !== null && document.querySelector(".skeleton") === null);
}

export async function openEverything(page) {
  await page.evaluate(() => document.querySelectorAll("details").forEach((each) => (each.open = true)));
}
