// An endpoint's page: its health, pings and inspections.
import assert from "node:assert/strict";
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { signedIn, startFixture, waitUntil, visit } from "./fixture.mjs";

let fixture;
before(async () => {
  fixture = await startFixture();
  await fixture.api("POST", "/v1/apps", { id: "shop", name: "Shop" });
});
after(() => fixture?.close());

test("an endpoint's health is drawn, described for every bucket, and marked where it changed", async () => {
  const overrides = { retry: { waits: [] } };
  await fixture.api("POST", "/v1/apps/shop/endpoints", { id: "erp", url: `${fixture.receiver.url}/erp`, overrides });
  fixture.receiver.answers.set("/erp", { status: 500 });
  const events = Array.from({ length: 12 }, () => ({ type: "order.paid", data: {} }));
  await fixture.api("POST", "/v1/apps/shop/events/batch", { events });
  const health = () => fixture.api("GET", "/v1/apps/shop/endpoints/erp/health");
  await waitUntil("it fails", async () => (await health()).state === "failing");
  const counted = async () => (await fixture.api("GET", "/v1/apps/shop/stats?endpoint_id=erp")).totals.failed >= 10;
  await waitUntil("that is counted", counted);

  const { page, violations, close } = await signedIn(fixture, "/apps/shop/endpoints/erp");
  const slider = page.getByRole("slider", { name: "Look at a span of time" });
  const sliderText = () => slider.getAttribute("aria-valuetext");
  const changes = page.getByRole("list", { name: "Changes of its state" });
  await changes.getByText("Failing", { exact: true }).waitFor();
  assert.equal(await page.getByRole("button", { name: "72 h" }).getAttribute("aria-pressed"), "true");
  assert.match(await sliderText(), /\d+ attempts, \d+ failed, 0\.0 % succeeded\. .*Failing at/);
  assert.match(await page.getByRole("img", { name: /Health over time/ }).getAttribute("aria-label"), /over half failed in 1/);
  await slider.focus();
  await page.keyboard.press("ArrowLeft");
  assert.match(await sliderText(), /nothing was sent\.$/);
  await page.keyboard.press("End");
  assert.match(await sliderText(), /failed/);

  await page.getByRole("button", { name: "Switch off" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Switch off" }).click();
  await changes.getByText("Switched off", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Switch on" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Switch on" }).click();
  await changes.getByText("Switched on", { exact: true }).waitFor();
  await page.getByRole("button", { name: "1 h", exact: true }).click();
  await page.waitForURL("**/erp?window=1h");
  await waitUntil("the spans are minutes", async () => Number(await slider.getAttribute("max")) >= 59);

  await visit(page, "/apps/shop/endpoints");
  await page.getByRole("cell", { name: "0.0 %" }).waitFor();
  assert.deepEqual(violations, []);
  await close();
});

/** Makes a receiver that verifies requests but keeps no ids, so it passes part of the checklist. */
function verifying(secretOf) {
  const key = () => Buffer.from(secretOf().replace(/^whsec_/, ""), "base64");
  const isGood = ({ headers }, body) => {
    const time = headers["webhook-timestamp"];
    if (Math.abs(Date.now() / 1000 - Number(time)) > 300) return false;
    const wanted = createHmac("sha256", key()).update(`${headers["webhook-id"]}.${time}.${body}`).digest();
    return (headers["webhook-signature"] ?? "").split(" ").some((each) => {
      const got = Buffer.from(each.replace(/^v1,/, ""), "base64");
      return got.length === wanted.length && timingSafeEqual(got, wanted);
    });
  };
  return createServer((incoming, outgoing) => {
    const chunks = [];
    incoming.on("data", (chunk) => chunks.push(chunk));
    incoming.on("end", () => {
      const isWell = incoming.method === "GET" || isGood(incoming, Buffer.concat(chunks).toString());
      outgoing.writeHead(isWell ? 200 : 401).end();
    });
  });
}

test("its health address is pinged and its receiver inspected, with a checklist of findings", async (t) => {
  let secret = "";
  const receiver = verifying(() => secret);
  t.after(() => {
    receiver.closeAllConnections();
    receiver.close();
  });
  await new Promise((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${receiver.address().port}`;
  ({ secret } = await fixture.api("POST", "/v1/apps/shop/endpoints", {
    id: "careful",
    url: `${url}/hooks`,
    event_types: ["none"],
  }));

  const { page, violations, close } = await signedIn(fixture, "/apps/shop/endpoints/careful");
  const tab = (name) => page.getByRole("navigation", { name: "Endpoint" }).getByRole("link", { name }).click();
  await tab("Inspect");
  await page.getByText("It has no health address.").waitFor();
  await tab("Settings");
  await page.getByLabel("Health address").fill(`${url}/health`);
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Saved.").waitFor();
  await tab("Inspect");

  await page.getByRole("button", { name: "Ping its health address" }).click();
  const ping = page.locator(".card", { has: page.getByRole("heading", { name: "Health address" }) });
  await ping.getByText("finished", { exact: true }).waitFor();
  await ping.getByText("1 of 1 passed").waitFor();

  await page.getByRole("button", { name: "Inspect now" }).click();
  const report = page.locator(".card", { has: page.getByRole("heading", { name: "Inspection", exact: true }) });
  await report.getByText("finished", { exact: true }).waitFor();
  const findings = await report.locator(".mark").evaluateAll((marks) => marks.map((mark) => mark.getAttribute("aria-label")));
  assert.ok(findings.length >= 5, `${findings}`);
  assert.ok(findings.filter((each) => each === "passed").length >= 4, `${findings}`);
  // The page shows the title of every check.
  const { data } = await fixture.api("GET", "/v1/apps/shop/endpoints/careful/inspections");
  for (const check of data[0].report.checks) await report.getByText(check.title, { exact: true }).waitFor();
  assert.deepEqual(violations, []);
  await close();
});
