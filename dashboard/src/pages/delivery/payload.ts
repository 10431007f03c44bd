// The payload that a delivery's body holds: the data as published, or what its endpoint's version makes of it.
import { useQuery } from "../../api/query";
import { api, dataOf, dataOrNull } from "../../api/client";
import { isPortal } from "../../session/session";
import { member } from "../../text/json-text";
import { type Payload, type Version, decideVersion, dependsOnVersions } from "../../text/payload-version";
import type { DeliveryContext } from "./delivery";

/** Null while it is on its way, and where this key cannot tell. */
export function usePayload({ delivery, endpoint, event, contract }: DeliveryContext): Payload | null {
  const isKnown = endpoint !== null && contract !== null && event != null && !event.event.data_erased;
  const pinned = endpoint?.payload_version ?? null;
  const query = useQuery(isKnown ? `payload ${delivery.id} ${contract.name} ${pinned ?? ""}` : "", async () => {
    if (!isKnown) return null;
    const type = event.event.type;
    const versions = dependsOnVersions(contract, pinned) ? await versionsOf(type) : [];
    const version = decideVersion(pinned, type, versions, !isPortal.value);
    if (version === null) return null;
    const data = version.isTransformed ? await transformed(type, version.name, event.data) : event.data;
    return data === null ? null : { data, version: version.name };
  });
  return query.data ?? null;
}

/** A portal link sees the list only. A key that sees neither is refused, which leaves the payload untold. */
async function versionsOf(type: string): Promise<readonly Version[] | null> {
  if (!isPortal.value) {
    const found = await dataOrNull(api.GET("/v1/event-types/{type}", { params: { path: { type } } }));
    return found?.versions ?? [];
  }
  const page = await dataOf(api.GET("/v1/event-types", { params: { query: { limit: 250, archived: true } } }));
  const found = page.data.find((each) => each.name === type);
  return found?.versions ?? (page.next_cursor ? null : []);
}

/** Sent and read as text, so that no number is rounded on its way. */
async function transformed(type: string, version: string, data: string): Promise<string | null> {
  const response = api.POST("/v1/event-types/{type}/try", {
    params: { path: { type } },
    body: {},
    bodySerializer: () => `{"version":${JSON.stringify(version)},"data":${data}}`,
    parseAs: "text",
  });
  return member((await dataOf(response)) as unknown as string, "data");
}
