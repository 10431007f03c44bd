// Workflows across several pages, with the real binary.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { signedIn, startFixture, startDev, waitUntil, visit } from "./fixture.mjs";

let fixture;
before(async () => {
  fixture = await startFixture();
});
after(() => fixture?.close());

const text = (page) => page.locator("main").innerText();

test("the link that `posthaste dev` prints signs in, and its pages show what was published", async () => {
  const { address, close: stop } = await startDev();
  const [origin, key] = address.split("/#key=");
  const { page, violations, close } = await signedIn({ ...fixture, server: origin }, "/", { key });
  await page.getByText("Overview").first().waitFor();
  await page.getByLabel("App", { exact: true }).selectOption("sample");
  await page.waitForURL("**/apps/sample");
  await visit(page, "/apps/sample/events");
  await page.getByRole("button", { name: "Publish an event" }).click();
  await page.getByLabel("Type", { exact: true }).fill("order.created");
  await page.getByLabel("Data", { exact: true }).fill("{}");
  await page.getByRole("button", { name: "Publish", exact: true }).click();
  await page.getByRole("link", { name: "order.created" }).click();
  await page.getByText("Delivered at attempt").waitFor();
  assert.deepEqual(violations, []);
  await close();
  stop();
});

test("from nothing to the first delivery", async () => {
  const { page, violations, close } = await signedIn(fixture, "/apps");
  assert.ok(!page.url().includes("#"), "the key left the address at once");
  await page.getByRole("button", { name: "Create an app" }).click();
  await page.getByLabel("Name").fill("Corner Bakery");
  await page.getByLabel("Id", { exact: true }).fill("bakery");
  await page.getByRole("button", { name: "Create it" }).click();
  await page.getByText("Nothing goes out yet").waitFor();

  await page.getByRole("link", { name: "add an endpoint" }).click();
  await page.getByRole("button", { name: "Add an endpoint" }).click();
  await page.getByLabel("URL").fill(`${fixture.receiver.url}/first`);
  await page.getByLabel("Event types").fill("order.*");
  await page.getByRole("button", { name: "Add it" }).click();
  await page.getByText(/whsec_/).waitFor();
  await page.getByRole("button", { name: "Close" }).click();
  await page.getByText("def verify").waitFor();

  await visit(page, "/apps/bakery/events");
  await page.getByRole("button", { name: "Publish an event" }).click();
  await page.getByLabel("Type", { exact: true }).fill("order.paid");
  await page.getByLabel("Data", { exact: true }).fill('{"order": 12345678901234567890, "price": 1.0}');
  await page.getByRole("button", { name: "Publish", exact: true }).click();
  await page.getByRole("link", { name: "order.paid" }).click();
  await page.getByText("Delivered at attempt 1.").waitFor();
  // Numbers are shown as they were published.
  await page.getByText("12345678901234567890").waitFor();
  assert.match(
    fixture.receiver.received.find((each) => each.path === "/first").body,
    /"order": 12345678901234567890, "price": 1\.0/,
  );
  assert.deepEqual(violations, []);
  await close();
});

test("a failing endpoint is found, repaired and replayed", async () => {
  await fixture.api("POST", "/v1/apps", { id: "repair", name: "Repair" });
  const overrides = { retry: { waits: ["10ms"], jitter: "none" } };
  await fixture.api("POST", "/v1/apps/repair/endpoints", { id: "erp", url: `${fixture.receiver.url}/broken`, overrides });
  fixture.receiver.answers.set("/broken", { status: 401, body: '{"error":"bad signature"}' });
  await fixture.api("POST", "/v1/apps/repair/events", { type: "order.paid", data: { order: 1 } });
  await waitUntil("it is dead", async () => (await fixture.api("GET", "/v1/apps/repair/dead-letters")).data.length === 1);
  await waitUntil("it is counted", async () => (await fixture.api("GET", "/v1/apps/repair/stats")).totals.dead === 1);

  const { page, violations, close } = await signedIn(fixture, "/");
  await page
    .getByRole("table", { name: "Endpoints that fail most" })
    .getByRole("link", { name: /broken$/ })
    .click();
  await page.getByText("Failed attempts in a row").waitFor();
  await visit(page, "/apps/repair");
  await page.getByRole("table", { name: "Deliveries in trouble" }).getByRole("link", { name: "order.paid" }).click();
  await page.getByText("Dead: every attempt").waitFor();
  await page.getByRole("link", { name: "Compare or rotate the secret" }).waitFor();

  await visit(page, "/apps/repair/endpoints/erp/settings");
  await page.getByLabel("URL").fill(`${fixture.receiver.url}/repaired`);
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Saved.").waitFor();

  await visit(page, "/apps/repair/dead-letters");
  await page.getByRole("button", { name: "Replay many…" }).click();
  await page.getByText("1 delivery would be sent again.").waitFor();
  await page.getByRole("button", { name: "Begin the replay" }).click();
  await page.getByText("finished", { exact: true }).waitFor();
  await visit(page, "/apps/repair/deliveries");
  await page.locator("main .badge", { hasText: "delivered" }).waitFor();
  assert.deepEqual(violations, []);
  await close();
});

test("a secret is rotated, and the receiver gets both signatures", async () => {
  await fixture.api("POST", "/v1/apps", { id: "rotating", name: "Rotating" });
  await fixture.api("POST", "/v1/apps/rotating/endpoints", { id: "shop", url: `${fixture.receiver.url}/rotated` });
  const { page, close } = await signedIn(fixture, "/apps/rotating/endpoints/shop/verify");
  await page.getByRole("button", { name: "Rotate…" }).click();
  await page.getByRole("button", { name: "Make a new secret" }).click();
  await waitUntil("both are shown", async () => (await page.locator(".copyable", { hasText: "whsec_" }).count()) === 2);
  await page.getByRole("button", { name: "Send a test event" }).click();
  await page.getByText("Delivered at attempt 1.").waitFor();
  const signature = fixture.receiver.received.find((each) => each.path === "/rotated").headers["webhook-signature"];
  assert.equal(signature.split(" ").length, 2);
  await close();
});

test("an endpoint is switched off and on again", async () => {
  await fixture.api("POST", "/v1/apps", { id: "switch", name: "Switch" });
  await fixture.api("POST", "/v1/apps/switch/endpoints", { id: "shop", url: `${fixture.receiver.url}/switch` });
  const { page, close } = await signedIn(fixture, "/apps/switch/endpoints/shop");
  await page.getByRole("button", { name: "Switch off" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Switch off" }).click();
  await page.getByText("somebody did so by hand").waitFor();
  await page.getByRole("button", { name: "Switch on" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Switch on" }).click();
  await page.getByText("somebody did so by hand").waitFor({ state: "detached" });
  await close();
});

test("an endpoint that is switched on again gets what it missed", async () => {
  await fixture.api("POST", "/v1/apps", { id: "missed", name: "Missed" });
  const overrides = { retry: { waits: [] } };
  await fixture.api("POST", "/v1/apps/missed/endpoints", { id: "shop", url: `${fixture.receiver.url}/missed`, overrides });
  fixture.receiver.answers.set("/missed", { status: 500 });
  await fixture.api("POST", "/v1/apps/missed/events", { type: "order.paid", data: {} });
  await waitUntil("it is dead", async () => (await fixture.api("GET", "/v1/apps/missed/dead-letters")).data.length === 1);
  await fixture.api("POST", "/v1/apps/missed/endpoints/shop/disable");
  fixture.receiver.answers.delete("/missed");
  const { page, violations, close } = await signedIn(fixture, "/apps/missed/endpoints/shop");
  await page.getByRole("button", { name: "Switch on" }).click();
  await page.getByLabel("Also replay what was missed while it was off").check();
  await page.getByRole("dialog").getByRole("button", { name: "Switch on" }).click();
  await page.waitForURL("**/apps/missed/replays/*");
  await page.getByText("finished", { exact: true }).waitFor();
  await waitUntil(
    "it arrived",
    async () => (await fixture.api("GET", "/v1/apps/missed/deliveries?status=delivered")).data.length === 1,
  );
  assert.deepEqual(violations, []);
  await close();
});

test("a key of one app starts on its page and sees no other app", async () => {
  await fixture.api("POST", "/v1/apps", { id: "mine", name: "Mine" });
  await fixture.api("POST", "/v1/apps", { id: "theirs", name: "Theirs" });
  const { key } = await fixture.api("POST", "/v1/keys", { scope: "app", app_id: "mine" });
  const { page, close } = await signedIn(fixture, "/", { key });
  await page.waitForURL("**/apps/mine");
  assert.equal(await page.getByRole("link", { name: "Keys" }).count(), 0);
  await visit(page, "/apps/theirs/deliveries");
  await page.getByRole("alert").waitFor();
  assert.match(await text(page), /belong to another app/);
  await close();
});

test("a read-only key sees no buttons that change something", async () => {
  await fixture.api("POST", "/v1/apps", { id: "looking", name: "Looking" });
  await fixture.api("POST", "/v1/apps/looking/endpoints", { id: "shop", url: `${fixture.receiver.url}/looking` });
  const { key } = await fixture.api("POST", "/v1/keys", { scope: "read", app_id: "looking" });
  const { page, close } = await signedIn(fixture, "/", { key });
  await page.waitForURL("**/apps/looking");
  await visit(page, "/apps/looking/endpoints/shop");
  await page.getByText("Nothing was sent here yet").waitFor();
  for (const name of ["Send a test event", "Switch off", "Publish an event"]) {
    assert.equal(await page.getByRole("button", { name }).count(), 0, name);
  }
  await close();
});

test("filters live in the address bar", async () => {
  await fixture.api("POST", "/v1/apps", { id: "filters", name: "Filters" });
  const { page, close } = await signedIn(fixture, "/apps/filters/deliveries?status=dead&event_type=order.paid");
  assert.equal(await page.getByLabel("Event type").inputValue(), "order.paid");
  await page.getByRole("button", { name: "retrying" }).click();
  await page.waitForURL("**/apps/filters/deliveries?status=dead,retrying&event_type=order.paid");
  await page.getByRole("link", { name: "Clear filters" }).click();
  await page.waitForURL("**/apps/filters/deliveries");
  await close();
});

test("the search box takes any id, from any app", async () => {
  await fixture.api("POST", "/v1/apps", { id: "found", name: "Found" });
  await fixture.api("POST", "/v1/apps/found/endpoints", { id: "found-endpoint", url: `${fixture.receiver.url}/found` });
  const event = await fixture.api("POST", "/v1/apps/found/events", { id: "order:10.01~x", type: "order.paid", data: {} });
  const { page, close } = await signedIn(fixture);
  const findById = async (id, path) => {
    await page.keyboard.press("/");
    await page.keyboard.type(id);
    await page.keyboard.press("Enter");
    await page.waitForURL(`**${path}`);
    await page.locator("main h1").click();
  };
  await findById(event.id, `/apps/found/events/${encodeURIComponent(event.id)}`);
  await findById("found-endpoint", "/apps/found/endpoints/found-endpoint");
  await findById(event.deliveries[0].id, `/apps/found/deliveries/${event.deliveries[0].id}`);
  await visit(page, "/");
  await findById(`${event.deliveries[0].id.replace("dlv_", "del_")}1`, `/apps/found/deliveries/${event.deliveries[0].id}`);
  await close();
});

test("a change appears within a second, and the page says when it is disconnected", async () => {
  await fixture.api("POST", "/v1/apps", { id: "live", name: "Live" });
  const { page, close } = await signedIn(fixture, "/apps/live/events");
  await page.locator(".live.is-live").waitFor();
  await page.getByText("No events yet").waitFor();
  await fixture.api("POST", "/v1/apps/live/events", { type: "order.paid", data: {} });
  await page.getByRole("link", { name: "order.paid" }).waitFor({ timeout: 1000 });

  fixture.process.stop();
  await page.getByText("The server cannot be reached").waitFor();
  await page.getByText("Disconnected").waitFor();
  await fixture.process.start();
  await page.getByText("The server cannot be reached").waitFor({ state: "detached" });
  await page.locator(".live.is-live").waitFor();
  await close();
});

test("a revoked key leads back to the sign-in page, which says why", async () => {
  await fixture.api("POST", "/v1/apps", { id: "revoked", name: "Revoked" });
  const { id, key } = await fixture.api("POST", "/v1/keys", { scope: "app", app_id: "revoked" });
  const { page, close } = await signedIn(fixture, "/apps/revoked/events", { key });
  await fixture.api("DELETE", `/v1/keys/${id}`);
  await page.getByText("This key is not known, or was revoked.").waitFor();
  await page.getByRole("button", { name: "Sign in" }).waitFor();
  await close();
});

test("a portal link shows one app, with its own theme, and no other app", async () => {
  await fixture.api("POST", "/v1/apps", { id: "customer", name: "Customer" });
  await fixture.api("POST", "/v1/apps", { id: "other", name: "Other" });
  await fixture.api("POST", "/v1/apps/customer/endpoints", { id: "shop", url: `${fixture.receiver.url}/portal` });
  const { page: operator, close: done } = await signedIn(fixture, "/apps/customer/portal");
  await operator.getByRole("button", { name: "Make a link" }).click();
  await operator.getByLabel("Name on top").fill("Corner Bakery");
  await operator.getByLabel("Accent colour").fill("#e8590c");
  await operator.getByRole("button", { name: "Make it" }).click();
  const address = await operator.locator(".copyable code", { hasText: "/portal/" }).innerText();
  await done();

  const [, path, key] = /(\/portal\/[^#]+)#key=(.+)$/.exec(address);
  const { page, violations, close } = await signedIn(fixture, path, { key });
  await page.waitForURL(`**${path}/apps/customer`);
  await page.getByText("Corner Bakery").first().waitFor();
  const accent = await page.evaluate(() => getComputedStyle(document.documentElement).getPropertyValue("--accent"));
  assert.notEqual(accent.trim(), "#3450c4");
  for (const name of ["Keys", "Changes", "Contracts"])
    assert.equal(await page.getByRole("link", { name, exact: true }).count(), 0, name);

  await page.getByRole("link", { name: "Endpoints" }).click();
  await page.getByRole("link", { name: /portal$/ }).click();
  await page.getByRole("button", { name: "Send a test event" }).click();
  await page.getByText("Delivered at attempt 1.").waitFor();
  assert.ok(new URL(page.url()).pathname.startsWith(`${path}/apps/customer/deliveries/`));
  await page.getByRole("link", { name: "Endpoints" }).click();
  await page.getByRole("link", { name: /portal$/ }).click();
  await page.getByRole("link", { name: "Verify" }).click();
  await page.getByText("def verify").waitFor();
  await page.getByRole("link", { name: "Settings" }).click();
  await page.getByLabel("Description").fill("Mine");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Saved.").waitFor();

  const { data } = await fixture.api("GET", "/v1/apps/customer/portal-links");
  await fixture.api("DELETE", `/v1/apps/customer/portal-links/${data[0].id}`);
  await page.getByText("You are signed out").waitFor();
  assert.deepEqual(violations, []);
  await close();

  const { url } = await fixture.api("POST", "/v1/apps/customer/portal-links", { read_only: true });
  const readOnly = await signedIn(fixture, path, { key: url.split("#key=")[1] });
  await visit(readOnly.page, `${path}/apps/customer/endpoints/shop`, path);
  await readOnly.page.getByRole("heading", { name: /portal$/ }).waitFor();
  assert.equal(await readOnly.page.getByRole("button", { name: "Switch off" }).count(), 0);
  await visit(readOnly.page, `${path}/apps/other/endpoints`, path);
  await readOnly.page.getByRole("alert").waitFor();
  await readOnly.close();
});
