// Which version of an event's data an endpoint gets, decided as the server decides it.
import type { ContractDocument } from "./contract";

/** The data as the body has it, and what the body calls its version. */
export interface Payload {
  data: string;
  version: string;
}

export interface Version {
  name: string;
  function?: string | null;
}

export interface Decided {
  name: string;
  /** By the version's function; else it is the data as published. */
  isMade: boolean;
}

/** What the data is called where the type has no versions. */
const ONLY_VERSION = "1";
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
): Decided | null {
  if (pinned !== null && eventType === TEST_EVENT) return { name: pinned, isMade: false };
  if (versions === null) return null;
  if (pinned === null) return { name: versions.at(-1)?.name ?? ONLY_VERSION, isMade: false };
  if (versions.length === 0) return pinned === ONLY_VERSION ? { name: pinned, isMade: false } : null;
  const found = versions.find((each) => each.name === pinned);
  if (found === undefined || !areFunctionsShown) return null;
  return { name: pinned, isMade: found.function != null };
}
