// Decides which version of an event's data an endpoint gets, by the server's rules.
import type { ContractDocument } from "./contract-document";

/** The data of a request body, and the version name in the body. */
export interface Payload {
  data: string;
  version: string;
}

export interface Version {
  name: string;
  function?: string | null;
}

export interface PayloadVersion {
  name: string;
  /** Whether the version's function transforms the data; otherwise it is sent as published. */
  isTransformed: boolean;
}

/** The version name of data whose type has no versions. */
const UNVERSIONED_NAME = "1";
const TEST_EVENT = "webhook.test";

/** Whether the event type's versions affect the request. */
export function dependsOnVersions(contract: ContractDocument, pinned: string | null): boolean {
  return pinned !== null || contract.body.fields.some((each) => each.from === "payload_version");
}

/** `versions` are the event type's, oldest first; null if unknown. Returns null if the version cannot be decided, or if the
 *  server would reject it. Customers do not see functions, so for them any version may have one. */
export function decideVersion(
  pinned: string | null,
  eventType: string,
  versions: readonly Version[] | null,
  areFunctionsShown: boolean,
): PayloadVersion | null {
  if (pinned !== null && eventType === TEST_EVENT) return { name: pinned, isTransformed: false };
  if (versions === null) return null;
  if (pinned === null) return { name: versions.at(-1)?.name ?? UNVERSIONED_NAME, isTransformed: false };
  if (versions.length === 0) return pinned === UNVERSIONED_NAME ? { name: pinned, isTransformed: false } : null;
  const found = versions.find((each) => each.name === pinned);
  if (found === undefined || !areFunctionsShown) return null;
  return { name: pinned, isTransformed: found.function != null };
}
