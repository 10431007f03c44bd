// What many pages ask about an app: the app, its endpoints, and the contract that an endpoint goes by.
import { type Query, useQuery } from "../api/query";
import { api, dataOf, dataOrNull } from "../api/client";
import type { App, Endpoint } from "../api/schema";
import { session } from "../session/session";
import type { ContractDocument } from "../text/contract-document";

export function useApp(app: string): Query<App> {
  return useQuery(`app ${app}`, () => dataOf(api.GET("/v1/apps/{app}", { params: { path: { app } } })), ["apps"]);
}

export function useEndpoint(app: string, id: string): Query<Endpoint> {
  const path = { app, endpoint: id };
  return useQuery(`endpoint ${app} ${id}`, () => dataOf(api.GET("/v1/apps/{app}/endpoints/{endpoint}", { params: { path } })), [
    "endpoints",
  ]);
}

/** As many as a page has: for choosing one, and for showing where an id leads. */
export function useEndpoints(app: string): Endpoint[] {
  const query = useQuery(
    `endpoints ${app}`,
    () => dataOf(api.GET("/v1/apps/{app}/endpoints", { params: { path: { app }, query: { limit: 250 } } })),
    ["endpoints"],
  );
  return query.data?.data ?? [];
}

export interface EndpointContract {
  /** Undefined while it is on its way; null where the key may not look at it, or it is gone. */
  contract: ContractDocument | null | undefined;
  isLive: boolean;
}

/** The contract that holds for an endpoint. Undefined: the endpoint is still on its way; null: it was deleted. */
export function useContractOf(app: string, endpoint: Endpoint | null | undefined): EndpointContract {
  const path = { app, endpoint: endpoint?.id ?? "" };
  const query = useQuery(endpoint ? `contract ${app} ${endpoint.id} ${endpoint.updated_at}` : "", async () => {
    if (!endpoint) return null;
    const found = await dataOrNull(api.GET("/v1/apps/{app}/endpoints/{endpoint}/contract", { params: { path } }));
    return found && (found.document as unknown as ContractDocument);
  });
  const owner = useQuery(`livemode ${app}`, () => {
    const own = session.value?.app;
    return own ? Promise.resolve(own) : dataOf(api.GET("/v1/apps/{app}", { params: { path: { app } } }));
  });
  const isLive = owner.data?.livemode ?? true;
  return { contract: endpoint === null || query.error !== null ? null : endpoint && query.data, isLive };
}
