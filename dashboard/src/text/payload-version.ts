// Which version of an event's data an endpoint gets, decided as the server decides it.
import type { ContractDocument } from "./contract-document";

/** The data as the body has it, and what the body calls its version. */
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
  /** By the version's function; else it is the data as published. */
  isTransformed: boolean;
}

/** What the data is called where the type has no versions. */
const UNVERSIONED_NAME = "1";
const TEST_EVENT = "webhook.test";

/** Whether the type's versions make a difference to what is sent. */
export function dependsOnVersions(contract: ContractDocument, pinned: string | null): boolean {
  return pinned !== null || contract.body.fields.some((each) => each.from === "payload_version");
}

/** `versions` are the type's, oldest first; null where they cannot be known. Null if it cannot be told, or is refused.
 *  Customers are not shown functions, so that to them any version may have one. */
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
