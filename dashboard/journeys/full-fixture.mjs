// A server with everything on it that pages can show, and a portal in colours of its own.
import { createData, ownContracts } from "./hostile-data.mjs";
import { startFixture } from "./fixture.mjs";

export async function startFullFixture() {
  const contracts = ownContracts();
  const fixture = await startFixture({ POSTHASTE_CONTRACTS_DIR: contracts.folder });
  const paths = await createData(fixture);
  // A colour of the kind that people choose, and that is too pale on anything but white.
  const theme = { name: paths.themeName, accent: "#1a73e8" };
  const { url } = await fixture.api("POST", "/v1/apps/shop/portal-links", { theme });
  const [, base, key] = /(\/portal\/[^#]+)#key=(.+)$/.exec(url);
  const close = async () => {
    await fixture.close();
    contracts.remove();
  };
  return { fixture, paths, portal: { base, key }, close };
}

/** What a customer sees too. */
export const isForCustomers = (path) => /^\/(event-types|apps\/shop(?!\/(settings|audit|portal)))/.test(path);

/** The page is there, and nothing of it is still on its way. */
export async function settled(page) {
  await page.waitForFunction(() => document.querySelector("main h1") !== null && document.querySelector(".skeleton") === null);
}

export async function openEverything(page) {
  await page.evaluate(() => document.querySelectorAll("details").forEach((each) => (each.open = true)));
}
