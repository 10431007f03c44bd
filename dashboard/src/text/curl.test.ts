// Runs the command in a shell, with a `curl` that prints its arguments.
import { execFileSync } from "node:child_process";
import { createHmac } from "node:crypto";
import { describe, expect, it } from "vitest";
import type { ContractDocument } from "./contract-document";
import fixture from "./contracts.fixture.json";
import { curlText, quoted } from "./curl";
import { decideVersion, dependsOnVersions } from "./payload-version";
import { type RequestInput, requestBody, requestHeaders } from "./request";
import { signingOf } from "./signing";

const documents = new Map(fixture.data.map((each) => [each.name, each.document as unknown as ContractDocument]));
const input: RequestInput = {
  appId: "shop",
  isLive: true,
  keyKind: "shared",
  eventId: "evt_0asnqhh8qr000",
  eventType: "payment.completed",
  createdAt: "2026-11-15T09:30:00.123Z",
  deliveryId: "dlv_0asnqhh8qr001",
};
const payload = { data: `{"order": 1001, "amount": "12.50", "shop": "Café's \\"$(date)"}`, version: "2026-01" };
const attempt = { attemptId: "del_0asnqhh8qr0011", number: 1, startedAt: "2026-11-15T09:30:02.5Z" };
const SECRET = "whsec_c2FtcGxlLXNlY3JldC1vZi10aGUtZG9jcyE=";

function run(command: string): { headers: Map<string, string>; body: string } {
  const script = `curl() { for each in "$@"; do printf '%s\\0' "$each"; done; }\n${command}`;
  const given = execFileSync("bash", ["-c", script], { encoding: "utf8", env: { ...process.env, WEBHOOK_SECRET: SECRET } }).split(
    "\0",
  );
  const headers = given.flatMap((each, at) => (given[at - 1] === "-H" ? [each] : []));
  return {
    headers: new Map(headers.map((each) => [each.slice(0, each.indexOf(": ")), each.slice(each.indexOf(": ") + 2)])),
    body: given[given.indexOf("--data-binary") + 1] ?? "",
  };
}

describe("a curl command", () => {
  it.each([...documents.keys()])("is signed as contract %s defines", (name) => {
    const contract = documents.get(name)!;
    const signing = signingOf(contract)!;
    const { headers, body } = run(curlText(contract, input, payload, attempt, "https://example.com/it's")!);
    expect(body).toBe(requestBody(contract, input, payload));
    const given = headers.get(signing.header)!;
    const t = signing.form.hasTime ? /^t=(\d+),/.exec(given)![1]! : (headers.get(signing.timeHeader ?? "") ?? "");
    const signed = signing.parts
      .map((part) => (part.kind === "text" ? part.text : { id: input.eventId, t, body }[part.kind]))
      .join("");
    const key = signing.decodeAfter === null ? SECRET : Buffer.from(SECRET.slice(6), "base64");
    const digest = createHmac("sha256", key).update(signed).digest(signing.encoding);
    expect(given.endsWith(signing.form.beforeSignature + digest)).toBe(true);
    expect(headers.get("content-type")).toBe("application/json");
  });

  it("does not exist for an ed25519 key", () => {
    expect(
      curlText(documents.get("standard")!, { ...input, keyKind: "ed25519" }, payload, attempt, "https://x.test/"),
    ).toBeNull();
  });

  it("quotes everything that a shell would run", () => {
    const nasty = `a'b $(id) \`id\` \\ "`;
    expect(execFileSync("bash", ["-c", `printf '%s' ${quoted(nasty)}`], { encoding: "utf8" })).toBe(nasty);
  });
});

describe("a rebuilt request", () => {
  it("has the bytes of docs/contracts.md", () => {
    const plain = { data: '{"order": 1001, "amount": "12.50", "shop": "Café"}', version: "1" };
    expect(requestBody(documents.get("standard")!, input, plain)).toBe(
      '{"id":"evt_0asnqhh8qr000","type":"payment.completed","timestamp":"2026-11-15T09:30:00.123Z","data":{"order": 1001, "amount": "12.50", "shop": "Café"}}',
    );
    expect(requestBody(documents.get("zerofee")!, input, plain)).toBe(
      '{"created_at":"2026-11-15T09:30:00Z","data":{"amount":"12.50","order":1001,"shop":"Caf\\u00e9"},"id":"evt_0asnqhh8qr000","type":"payment.completed"}',
    );
    expect(requestBody(documents.get("orientedos")!, input, { ...plain, data: '{"event": 1}' })).toBeNull();
  });

  it("has the version of its payload", () => {
    const body = JSON.parse(requestBody(documents.get("simpaisa")!, input, payload)!) as { version: string };
    expect(body.version).toBe("2026-01");
  });

  it("has the contract's headers, with a placeholder as signature", () => {
    const headers = new Map(requestHeaders(documents.get("zerofee")!, input, attempt));
    expect(headers.get("x-zerofee-delivery")).toBe("del_0asnqhh8qr0011");
    expect(headers.get("x-zerofee-signature")).toBe("t=1794735002,v1={signature}");
    expect(headers.get("user-agent")).toBe("ZeroFee-Webhook/1.0");
    const signature = (keyKind: RequestInput["keyKind"]) =>
      new Map(requestHeaders(documents.get("standard")!, { ...input, keyKind }, attempt)).get("webhook-signature");
    expect([signature("shared"), signature("ed25519")]).toEqual(["v1,{signature}", "v1a,{signature}"]);
  });
});

describe("the version of a payload", () => {
  const versions = [
    { name: "2024-01", function: "data => data.old" },
    { name: "2025-01", function: null },
  ];

  it("is the newest one if none is pinned, with the data as published", () => {
    expect(decideVersion(null, "order.paid", versions, true)).toEqual({ name: "2025-01", isTransformed: false });
    expect(decideVersion(null, "order.paid", [], true)).toEqual({ name: "1", isTransformed: false });
    expect(decideVersion(null, "order.paid", null, true)).toBeNull();
  });

  it("is made by its function if the endpoint pins it", () => {
    expect(decideVersion("2024-01", "order.paid", versions, true)).toEqual({ name: "2024-01", isTransformed: true });
    expect(decideVersion("2025-01", "order.paid", versions, true)).toEqual({ name: "2025-01", isTransformed: false });
    expect(decideVersion("1", "order.paid", [], true)).toEqual({ name: "1", isTransformed: false });
    expect(decideVersion("2024-01", "webhook.test", null, true)).toEqual({ name: "2024-01", isTransformed: false });
  });

  it("is unknown if functions are not shown or the version does not exist", () => {
    expect(decideVersion("2025-01", "order.paid", versions, false)).toBeNull();
    expect(decideVersion("2023-01", "order.paid", versions, true)).toBeNull();
    expect(decideVersion("2024-01", "order.paid", [], true)).toBeNull();
  });

  it("matters if the endpoint pins one or the contract's body contains it", () => {
    const matters = [...documents].filter(([, document]) => dependsOnVersions(document, null)).map(([name]) => name);
    expect(matters).toEqual(["simpaisa"]);
    expect(dependsOnVersions(documents.get("standard")!, "2024-01")).toBe(true);
  });
});
