// An app with data for every page, in which all external text is hostile: each hostile string is in every field that accepts it.
// `texts` are the texts that a page must contain.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { hostileStrings } from "./hostile-strings.mjs";
import { waitUntil } from "./fixture.mjs";

const strings = hostileStrings();
const app = "/v1/apps/shop";
/** Index of a string too long for any line. The layout checks visit its pages. */
const LONGEST = strings.findIndex((each) => each.length >= 500);

/** Cuts a text to a number of bytes, without control characters, which the API accepts only in data and answers. */
function singleLine(value, bytes = 200) {
  let text = value.replace(/\p{Cc}/gu, " ");
  while (Buffer.byteLength(text) > bytes) text = [...text].slice(0, -1).join("");
  return text;
}
const graphic = (value) => value.replace(/[^\x21-\x7e]/g, "_").slice(0, 256);
const printable = (value) => value.replace(/[^\x20-\x7e]/g, "?").slice(0, 200);
const inJson = (value) => JSON.stringify(value);
/** Returns every sixth string from an offset, for records of which there cannot be hundreds. */
const everySixth = (from) => strings.filter((_, at) => at % 6 === from);

/** Writes contracts of the operator to a folder for the setting `contracts_dir`. */
export function ownContracts() {
  const folder = mkdtempSync(join(tmpdir(), "journey-contracts-"));
  for (const [at, value] of everySixth(0).entries()) {
    const text = `name = "own-${at}"\nbased_on = "standard"\ndescription = ${inJson(singleLine(value))}\n`;
    writeFileSync(join(folder, `own-${at}.toml`), text);
  }
  return { folder, remove: () => rmSync(folder, { recursive: true }) };
}

/** Creates the data, and returns the pages to visit with the texts that each must contain. */
export async function createData(fixture) {
  await fixture.api("POST", "/v1/apps", {
    id: "shop",
    name: singleLine(strings[0]),
    metadata: { note: strings[1] },
    contact_email: "o'{{7*7}}&`${1}|~@example.com",
  });
  await makeEndpoints(fixture);
  await makeTypes(fixture);
  const events = strings.map((value, at) => ({
    type: `type.${at}`,
    key: graphic(value),
    data: { [value]: value, list: [value] },
  }));
  await fixture.api("POST", `${app}/events/batch`, { events });
  for (const [at, value] of strings.entries()) {
    const { key } = await fixture.api("POST", "/v1/keys", { scope: "app", app_id: "shop", name: singleLine(value) });
    // Makes an entry of the audit log with the key's name.
    if (at % 6 === 4) await fixture.api("PATCH", `${app}/endpoints/ep-${at}`, { max_in_flight: 8 }, key);
    if (at % 6 === 1) await fixture.api("POST", `${app}/portal-links`, { theme: { name: singleLine(value, 100) } });
    if (at % 6 === 2)
      await fixture.api("POST", "/v1/apps", { id: `app-${at}`, name: singleLine(value), metadata: { note: value } });
  }
  await fixture.api("POST", `${app}/replays`, { status: ["dead"], dry_run: false });
  await waitUntil(
    "all are dead",
    async () => (await fixture.api("GET", `${app}/deliveries?status=dead&limit=250`)).data.length >= strings.length,
    30_000,
  );
  // Makes a notice with an address too long for any line.
  await fixture.api("POST", `${app}/endpoints/ep-${LONGEST}/disable`);
  const deliveries = (await fixture.api("GET", `${app}/deliveries?limit=250`)).data;
  const replay = (await fixture.api("GET", `${app}/replays`)).data[0].id;
  return {
    every: everyPage(
      deliveries.find((each) => each.endpoint_id === `ep-${LONGEST}`),
      replay,
    ),
    listPages: listPages(),
    detailPages: detailPages(deliveries),
    addressBarPages: addressBarPages(),
    themeName: singleLine(strings[2], 100),
  };
}

async function makeEndpoints(fixture) {
  for (const [at, value] of strings.entries()) {
    const url = `${fixture.receiver.url}/${at}?q=${encodeURIComponent(value)}`;
    await fixture.api("POST", `${app}/endpoints`, {
      id: `ep-${at}`,
      url,
      health_url: url,
      description: singleLine(value, 1000),
      metadata: { note: value },
      headers: { "x-!#$%&'*+.^_`|~": value.replace(/[^\x21-\x7e]/g, "?") },
      event_types: [`type.${at}`],
      overrides: { retry: { waits: ["10ms"], jitter: "none" } },
    });
    fixture.receiver.answers.set(`/${at}`, { status: 500, headers: { "x-odd": printable(value) }, body: value });
  }
}

async function makeTypes(fixture) {
  const types = strings.map((value, at) => ({
    name: `type.${at}`,
    description: value,
    sample: { [value]: value },
    versions: [{ name: "1", description: value, schema: { title: value }, function: `data => ({ made: ${inJson(value)} })` }],
  }));
  await fixture.api("POST", "/v1/event-types/import", { event_types: types });
}

function everyPage(delivery, replay) {
  const operators = [
    "/",
    "/apps",
    "/contracts",
    "/contracts/standard",
    "/contracts/own-0",
    "/event-types",
    `/event-types/type.${LONGEST}`,
  ];
  operators.push("/keys", "/audit", "/notices", "/system", "/nowhere");
  const ofApp = ["", "/settings", "/audit", "/notices", "/portal", "/endpoints", "/events", "/deliveries", "/dead-letters"];
  ofApp.push("/replays", `/replays/${replay}`, `/events/${delivery.event_id}`, `/deliveries/${delivery.id}`);
  for (const tab of ["", "/deliveries", "/dead-letters", "/inspect", "/verify", "/settings"])
    ofApp.push(`/endpoints/ep-${LONGEST}${tab}`);
  return [...operators, ...ofApp.map((each) => `/apps/shop${each}`)];
}

/** Returns the lists. Their texts are spread over all pages of a list. */
function listPages() {
  return [
    { path: "/apps", texts: everySixth(2).map((each) => singleLine(each)) },
    { path: "/contracts", texts: everySixth(0).map((each) => singleLine(each)) },
    { path: "/event-types", texts: strings },
    { path: "/keys", texts: strings.map((each) => singleLine(each)) },
    { path: "/apps/shop/audit", texts: everySixth(4).map((each) => singleLine(each)) },
    { path: "/apps/shop/endpoints", texts: strings.map((each) => singleLine(each, 1000)) },
    { path: "/apps/shop/events", texts: strings.map(graphic) },
    { path: "/apps/shop/portal", texts: everySixth(1).map((each) => singleLine(each, 100)) },
  ];
}

/** Returns for each string its delivery's page, and one page of another record that contains it, in turn. */
function detailPages(deliveries) {
  const byEndpoint = new Map(deliveries.map((each) => [each.endpoint_id, each]));
  return strings.flatMap((value, at) => {
    const { id, event_id } = byEndpoint.get(`ep-${at}`);
    const endpoint = `/apps/shop/endpoints/ep-${at}`;
    const other = [
      { path: `/contracts/own-${Math.floor(at / 6)}`, texts: [singleLine(value)] },
      { path: endpoint, texts: [singleLine(value, 1000)], operators: [inJson(value)] },
      { path: `/apps/app-${at}/settings`, texts: [singleLine(value), inJson(value)] },
      { path: `/apps/shop/events/${event_id}`, texts: [graphic(value), inJson(value)] },
      { path: `/event-types/type.${at}`, texts: [value, inJson(value), `data => ({ made: ${inJson(value)} })`] },
      { path: `${endpoint}/settings`, texts: [singleLine(value, 1000)] },
    ];
    return [{ path: `/apps/shop/deliveries/${id}`, texts: [inJson(value), printable(value)] }, other[at % 6]];
  });
}

/** Returns pages with strings in the address bar: as filters, which are shown in fields, and as ids, which errors may repeat. */
function addressBarPages() {
  return everySixth(3).flatMap((value) => {
    const text = encodeURIComponent(singleLine(value));
    return [
      { path: `/apps/shop/deliveries?event_type=${text}&endpoint_id=${text}`, texts: [singleLine(value)] },
      { path: `/apps/shop/deliveries?status=${text}&from=${text}&order=${text}`, texts: [] },
      { path: `/apps/${text}/events/${text}`, texts: [] },
    ];
  });
}
