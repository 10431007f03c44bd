// Interactions: the menu on a phone, the dark theme, counts while typing, lists on an endpoint's page.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { signedIn, startFixture, waitUntil, visit } from "./fixture.mjs";

let fixture;
before(async () => {
  fixture = await startFixture();
  await fixture.api("POST", "/v1/apps", { id: "shop", name: "Shop" });
});
after(() => fixture?.close());

test("on a phone the menu opens, leads to a page, and closes", async () => {
  const phone = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };
  const { page, violations, close } = await signedIn(fixture, "/apps/shop", phone);
  const menu = page.getByRole("button", { name: "Menu", exact: true });
  const drawer = page.getByRole("complementary", { name: "Pages" });
  const isOpen = async () => (await menu.getAttribute("aria-expanded")) === "true";
  const isInView = () => drawer.isVisible();
  assert.deepEqual([await isOpen(), await isInView()], [false, false]);

  await menu.tap();
  await waitUntil("the menu is there", isInView);
  await drawer.getByRole("link", { name: "Endpoints" }).tap();
  await page.waitForURL("**/apps/shop/endpoints");
  await waitUntil("it made room", async () => !(await isOpen()) && !(await isInView()));
  await page.getByRole("heading", { name: "Endpoints", exact: true }).waitFor();

  await menu.tap();
  await waitUntil("it is there again", isInView);
  await page.keyboard.press("Escape");
  await waitUntil("Escape shut it", async () => !(await isOpen()) && !(await isInView()));
  await menu.tap();
  await waitUntil("it is there once more", isInView);
  await page.getByRole("button", { name: "Close the menu" }).tap({ position: { x: 380, y: 700 } });
  await waitUntil("a tap beside it shut it", async () => !(await isOpen()) && !(await isInView()));
  assert.deepEqual(violations, []);
  await close();
});

test("a button switches to the dark theme, which survives a reload", async () => {
  const { page, violations, close } = await signedIn(fixture, "/", { colorScheme: "light" });
  const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  const light = await ground();
  await page.getByRole("button", { name: "Auto", exact: true }).click();
  await page.getByRole("button", { name: "Light", exact: true }).click();
  await page.getByRole("button", { name: "Dark", exact: true }).waitFor();
  const dark = await ground();
  assert.notEqual(dark, light);
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
  await page.reload();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  assert.equal(await ground(), dark, "a reload forgets the key, and not the look");
  assert.deepEqual(violations, []);
  await close();
});

test("a subscription shows how many events it would have matched while it is typed", async () => {
  await fixture.api("POST", "/v1/apps/shop/endpoints", {
    id: "typed",
    url: `${fixture.receiver.url}/typed`,
    event_types: ["none"],
  });
  const types = ["order.paid", "order.paid", "order.sent", "refund.made"];
  await fixture.api("POST", "/v1/apps/shop/events/batch", { events: types.map((type) => ({ type, data: {} })) });
  const { page, violations, close } = await signedIn(fixture, "/apps/shop/endpoints/typed/settings");
  const counts = (matching) => page.getByText(`${matching} of the latest 4 events would have matched.`).waitFor();
  const field = page.getByLabel("Event types");
  await counts(0);
  await field.fill("order.*");
  await counts(3);
  await field.fill("order.sent refund.*");
  await counts(2);
  await field.fill("*");
  await counts(4);
  const { event_types } = await fixture.api("GET", "/v1/apps/shop/endpoints/typed");
  assert.deepEqual(event_types, ["none"], "nothing is saved by typing");
  assert.deepEqual(violations, []);
  await close();
});

test("an endpoint's page has its own dead letters, which are closed and replayed there", async () => {
  for (const id of ["broken", "other"]) {
    const overrides = { retry: { waits: [] } };
    const body = { id, url: `${fixture.receiver.url}/${id}`, event_types: [`${id}.*`], overrides };
    await fixture.api("POST", "/v1/apps/shop/endpoints", body);
    fixture.receiver.answers.set(`/${id}`, { status: 500 });
  }
  const events = ["broken.one", "broken.two", "other.one"].map((type) => ({ type, data: {} }));
  await fixture.api("POST", "/v1/apps/shop/events/batch", { events });
  await waitUntil("all died", async () => (await fixture.api("GET", "/v1/apps/shop/dead-letters")).data.length === 3);
  fixture.receiver.answers.delete("/broken");

  const { page, violations, close } = await signedIn(fixture, "/apps/shop/endpoints/broken");
  await page.getByRole("navigation", { name: "Endpoint" }).getByRole("link", { name: "Dead letters" }).click();
  await page.waitForURL("**/apps/shop/endpoints/broken/dead-letters");
  const row = (type) => page.getByRole("row").filter({ has: page.getByRole("link", { name: type }) });
  await row("broken.one").waitFor();
  await row("broken.two").waitFor();
  assert.equal(await row("other.one").count(), 0);

  await row("broken.one").getByRole("button", { name: "Close" }).click();
  await row("broken.one").waitFor({ state: "detached" });
  await page.getByLabel("Closed ones too").check();
  await row("broken.one").waitFor();
  await row("broken.two").getByRole("button", { name: "Replay" }).click();
  await row("broken.two").waitFor({ state: "detached" });
  await waitUntil("it came", () =>
    fixture.receiver.received.some((each) => each.path === "/broken" && each.body.includes("broken.two")),
  );
  assert.deepEqual(violations, []);
  await close();
});
