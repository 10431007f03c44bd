// The buttons of a delivery's page: each is pressed, and its effect is checked.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createHmac } from "node:crypto";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { signedIn, startFixture, waitUntil, visit } from "./fixture.mjs";

const run = promisify(execFile);
let fixture;
before(async () => {
  fixture = await startFixture();
  await fixture.api("POST", "/v1/apps", { id: "shop", name: "Shop" });
});
after(() => fixture?.close());

/** Makes a failing endpoint and a delivery to it, and waits until the delivery has the given status. */
async function failed(id, waits, status, settings = {}) {
  const url = `${fixture.receiver.url}/${id}`;
  const overrides = { retry: { waits }, https_only: false };
  const body = { id, url, event_types: [`${id}.done`], overrides, ...settings };
  const { secret } = await fixture.api("POST", "/v1/apps/shop/endpoints", body);
  fixture.receiver.answers.set(`/${id}`, { status: 503, body: "down" });
  const event = await fixture.api("POST", "/v1/apps/shop/events", { type: `${id}.done`, data: { it: '\'s "quoted" & ünïcode' } });
  const delivery = `/apps/shop/deliveries/${event.deliveries[0].id}`;
  await waitUntil(status, async () => (await fixture.api("GET", `/v1${delivery}`)).status === status);
  return { delivery, secret, got: () => fixture.receiver.received.filter((each) => each.path === `/${id}`) };
}

const press = (page, name) => page.locator(".head").getByRole("button", { name, exact: true }).click();
const confirm = (page, name) => page.getByRole("dialog").getByRole("button", { name, exact: true }).click();
const permissions = ["clipboard-read", "clipboard-write"];

/** Presses a button of the delivery's page, and returns what it copied to the clipboard. */
async function copied(page, name) {
  await press(page, name);
  await page.locator(".head").getByText("Copied").waitFor();
  const text = await page.evaluate(() => navigator.clipboard.readText());
  await page.locator(".head").getByText("Copied").waitFor({ state: "detached" });
  return text;
}
const state = (page, name) => page.locator(".head .badge", { hasText: name }).waitFor();

test("a waiting delivery is retried at once, cancelled, and replayed", async () => {
  const { delivery, got } = await failed("erp", ["1h", "1h", "1h"], "retrying");
  const { page, violations, close } = await signedIn(fixture, delivery);
  await press(page, "Retry now");
  await waitUntil("an extra attempt came", () => got().length === 2);
  await page.getByText("One extra attempt is on its way.").waitFor();
  await waitUntil("both are shown", async () => (await page.locator(".attempts > li .answer", { hasText: "503" }).count()) === 2);
  await state(page, "retrying");

  await press(page, "Cancel");
  await confirm(page, "Cancel");
  await state(page, "cancelled");
  assert.equal(await page.getByRole("button", { name: "Cancel", exact: true }).count(), 0);

  fixture.receiver.answers.delete("/erp");
  await press(page, "Replay");
  await state(page, "delivered");
  assert.equal(new URL(page.url()).pathname, delivery, "what never arrived goes on as the same delivery");

  await press(page, "Replay");
  await confirm(page, "Replay");
  await page.waitForURL((url) => url.pathname !== delivery);
  await state(page, "delivered");
  const ids = new Set(got().map((each) => each.headers["webhook-id"]));
  assert.deepEqual([got().length, ids.size], [4, 1], "the same event each time");
  assert.deepEqual(violations, []);
  await close();
});

test("a dead letter is closed, and stays on record", async () => {
  const { delivery } = await failed("crm", [], "dead");
  const { page, violations, close } = await signedIn(fixture, delivery);
  await press(page, "Close");
  await page.getByText("somebody looked at it and closed it").waitFor();
  assert.equal(await page.locator(".head").getByRole("button", { name: "Close", exact: true }).count(), 0);
  await visit(page, "/apps/shop/dead-letters");
  await page.getByText("crm.done").waitFor({ state: "detached" });
  await page.getByLabel("Closed ones too").check();
  await page.getByText("crm.done").waitFor();
  assert.deepEqual(violations, []);
  await close();
});

test("a delivery is copied as a link, and as a command that sends it with a new signature", async () => {
  const { delivery, secret, got } = await failed("pos", ["1h"], "retrying");
  const { page, violations, close } = await signedIn(fixture, delivery, { permissions });
  assert.equal(await copied(page, "Copy the link"), `${fixture.server}${delivery}`);

  const command = await copied(page, "Copy as curl");
  assert.ok(!command.includes(secret), "the secret is in no clipboard");
  await run("sh", ["-c", command], { env: { PATH: process.env.PATH, WEBHOOK_SECRET: secret } });
  await waitUntil("it came", () => got().length === 2);
  const [first, again] = got();
  assert.equal(again.body, first.body);
  const { "webhook-id": id, "webhook-timestamp": time, "webhook-signature": signature } = again.headers;
  assert.equal(id, first.headers["webhook-id"]);
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  assert.equal(signature, `v1,${createHmac("sha256", key).update(`${id}.${time}.${again.body}`).digest("base64")}`);
  assert.deepEqual(violations, []);
  await close();
});

for (const [what, id, settings] of [
  ["what the version makes that its endpoint is pinned to", "pinned", { payload_version: "2024-01" }],
  ["the newest version's name where its endpoint is not pinned", "newest", { contract: "simpaisa" }],
]) {
  test(`the command sends ${what}`, async () => {
    const versions = [{ name: "2024-01", function: "data => ({ was: data.it, big: 1.5 })" }, { name: "2025-01" }];
    await fixture.api("POST", "/v1/event-types", { name: `${id}.done`, sample: { it: "x" }, versions });
    const { delivery, secret, got } = await failed(id, ["1h"], "retrying", settings);
    const { page, close } = await signedIn(fixture, delivery, { permissions });
    const command = await copied(page, "Copy as curl");
    await run("sh", ["-c", command], { env: { PATH: process.env.PATH, WEBHOOK_SECRET: secret } });
    await waitUntil("it came", () => got().length === 2);
    assert.match(got()[0].body, id === "pinned" ? /"was"/ : /"2025-01"/);
    assert.equal(got()[1].body, got()[0].body);
    await close();
  });
}

test("a customer, who sees no functions, gets no command that would send another body", async () => {
  const { delivery } = await failed("hidden", ["1h"], "retrying", { payload_version: "1" });
  const { url } = await fixture.api("POST", "/v1/apps/shop/portal-links", {});
  const [, base, key] = /(\/portal\/[^#]+)#key=(.+)$/.exec(url);
  const { page, close } = await signedIn(fixture, base, { key });
  const link = page.locator(".head").getByRole("button", { name: "Copy the link" });
  const curl = page.locator(".head").getByRole("button", { name: "Copy as curl" });
  await visit(page, base + delivery, base);
  await curl.waitFor();
  await fixture.api("POST", "/v1/event-types", {
    name: "hidden.done",
    sample: {},
    versions: [{ name: "1", function: "data => 1" }],
  });
  await visit(page, `${base}/apps/shop/deliveries`, base);
  const versions = page.waitForResponse((each) => new URL(each.url()).pathname === "/v1/event-types");
  await visit(page, base + delivery, base);
  await (await versions).finished();
  await link.waitFor();
  await page.waitForFunction(() => document.querySelector(".skeleton") === null);
  assert.equal(await curl.count(), 0);
  await close();
});
