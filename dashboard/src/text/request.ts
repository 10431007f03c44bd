// Rebuilds an attempt's headers and body from the contract. The secret is not available here, so the signature is left out.
import { type ContractDocument, withBrand, headerTemplates } from "./contract-document";
import { members } from "./json-text";
import type { Payload } from "./payload-version";
import { type KeyKind, signatureTemplate } from "./signing";
import { sortedJson } from "./sorted-json";

export interface RequestInput {
  appId: string;
  isLive: boolean;
  keyKind: KeyKind;
  eventId: string;
  eventType: string;
  createdAt: string;
  /** Id of the original delivery if this one is a replay. */
  deliveryId: string;
}

export interface AttemptInput {
  attemptId: string;
  number: number;
  startedAt: string;
}

/** Returns header names and values. The signature header contains the placeholder `{signature}`. */
export function requestHeaders(contract: ContractDocument, input: RequestInput, attempt: AttemptInput): [string, string][] {
  const seconds = String(Math.floor(new Date(attempt.startedAt).getTime() / 1000));
  const values: Record<string, string> = {
    id: input.eventId,
    event_id: input.eventId,
    type: input.eventType,
    delivery_id: input.deliveryId,
    attempt_id: attempt.attemptId,
    attempt: String(attempt.number),
    t: seconds,
    // The version of Posthaste that sent the request is unknown here.
    version: "…",
  };
  const fill = (text: string) => text.replace(/\{(\w+)\}/g, (whole, name: string) => values[name] ?? whole);
  const form = signatureTemplate(contract, input.keyKind) ?? "{signature}";
  return [
    ["content-type", "application/json"],
    ["user-agent", fill(withBrand(contract.user_agent, contract))],
    ...headerTemplates(contract).map(([name, value]): [string, string] => [name.toLowerCase(), fill(value)]),
    [withBrand(contract.signature.header, contract).toLowerCase(), fill(form)],
  ];
}

/** Returns the body, byte for byte as the contract defines it. Null if the data does not fit the contract's form. */
export function requestBody(contract: ContractDocument, input: RequestInput, payload: Payload): string | null {
  const { body } = contract;
  const own = body.fields.map((field): [string, string] => [field.name, bodyValue(field.from, contract, input, payload)]);
  let all = own;
  if (body.form === "flat") {
    const inside = members(payload.data);
    if (inside === null || inside.some(([name]) => own.some(([taken]) => taken === name))) return null;
    all = [...own, ...inside];
  }
  const text = `{${all.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(",")}}`;
  return body.json === "sorted" ? sortedJson(text) : text;
}

function bodyValue(from: string, contract: ContractDocument, input: RequestInput, payload: Payload): string {
  switch (from) {
    case "event_id":
      return JSON.stringify(input.eventId);
    case "type":
      return JSON.stringify(input.eventType);
    case "created_at":
      return JSON.stringify(eventTime(input.createdAt, contract.body.time));
    case "livemode":
      return String(input.isLive);
    case "delivery_id":
      return JSON.stringify(input.deliveryId);
    case "app_id":
      return JSON.stringify(input.appId);
    case "payload_version":
      return JSON.stringify(payload.version);
    case "data":
      return payload.data;
    default:
      return "null";
  }
}

function eventTime(createdAt: string, form: string): string {
  const text = new Date(createdAt).toISOString();
  return form === "seconds" ? text.replace(/\.\d+Z$/, "Z") : text;
}
