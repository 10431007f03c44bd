// The payload of a delivery: the data as published, or transformed to the endpoint's version.
import { useQuery } from "../../api/query";
import { api, dataOf, dataOrNull } from "../../api/client";
import { isPortal } from "../../session/session";
import { member } from "../../text/json-text";
import { type Payload, type Version, decideVersion, dependsOnVersions } from "../../text/payload-version";
import type { DeliveryContext } from "./delivery";

/** Returns the payload. Null while loading, and if this key cannot determine it. */
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

/** Loads an event type's versions. A portal link may read only the list. A key without access gets an error, so the payload
 *  stays unknown. */
async function versionsOf(type: string): Promise<readonly Version[] | null> {
  if (!isPortal.value) {
    const found = await dataOrNull(api.GET("/v1/event-types/{type}", { params: { path: { type } } }));
    return found?.versions ?? [];
  }
  const page = await dataOf(api.GET("/v1/event-types", { params: { query: { limit: 250, archived: true } } }));
  const found = page.data.find((each) => each.name === type);
  return found?.versions ?? (page.next_cursor ? null : []);
}

/** Transforms data to a version through the API. It is sent and read as text, so that no number is rounded. */
async function transformed(type: string, version: string, data: string): Promise<string | null> {
  const response = api.POST("/v1/event-types/{type}/try", {
    params: { path: { type } },
    body: {},
    bodySerializer: () => `{"version":${JSON.stringify(version)},"data":${data}}`,
    parseAs: "text",
  });
  return member((await dataOf(response)) as unknown as string, "data");
}
