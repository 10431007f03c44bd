// Queries shared by many pages: an app, its endpoints, and an endpoint's contract.
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

/** Returns the first 250 endpoints of an app, for choices and for showing URLs instead of ids. */
export function useEndpoints(app: string): Endpoint[] {
  const query = useQuery(
    `endpoints ${app}`,
    () => dataOf(api.GET("/v1/apps/{app}/endpoints", { params: { path: { app }, query: { limit: 250 } } })),
    ["endpoints"],
  );
  return query.data?.data ?? [];
}

export interface EndpointContract {
  /** Undefined while loading; null if the key may not read it, or if it is gone. */
  contract: ContractDocument | null | undefined;
  isLive: boolean;
}

/** Loads the contract in force for an endpoint. `endpoint` is undefined while loading and null if it was deleted. */
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
