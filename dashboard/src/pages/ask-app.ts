// What many pages ask about an app: the app, its endpoints, and the contract that an endpoint goes by.
import { type Asked, useAsked } from "../api/asked";
import { api, ask, askIfThere } from "../api/client";
import type { App, Endpoint } from "../api/schema";
import { session } from "../session/session";
import type { ContractDocument } from "../text/contract";

export function useApp(app: string): Asked<App> {
  return useAsked(`app ${app}`, () => ask(api.GET("/v1/apps/{app}", { params: { path: { app } } })), ["apps"]);
}

export function useEndpoint(app: string, id: string): Asked<Endpoint> {
  const path = { app, endpoint: id };
  return useAsked(`endpoint ${app} ${id}`, () => ask(api.GET("/v1/apps/{app}/endpoints/{endpoint}", { params: { path } })), [
    "endpoints",
  ]);
}

/** As many as a page has: for choosing one, and for showing where an id leads. */
export function useEndpoints(app: string): Endpoint[] {
  const query = { limit: 250 };
  const asked = useAsked(
    `endpoints ${app}`,
    () => ask(api.GET("/v1/apps/{app}/endpoints", { params: { path: { app }, query } })),
    ["endpoints"],
  );
  return asked.data?.data ?? [];
}

export interface Holding {
  /** Undefined while it is on its way; null where the key may not look at it, or it is gone. */
  contract: ContractDocument | null | undefined;
  isLive: boolean;
}

/** The contract that holds for an endpoint. Undefined: the endpoint is still on its way; null: it was deleted. */
export function useContractOf(app: string, endpoint: Endpoint | null | undefined): Holding {
  const path = { app, endpoint: endpoint?.id ?? "" };
  const asked = useAsked(endpoint ? `contract ${app} ${endpoint.id} ${endpoint.updated_at}` : "", async () => {
    if (!endpoint) return null;
    const found = await askIfThere(api.GET("/v1/apps/{app}/endpoints/{endpoint}/contract", { params: { path } }));
    return found && (found.document as unknown as ContractDocument);
  });
  const owner = useAsked(`livemode ${app}`, () => {
    const own = session.value?.app;
    return own ? Promise.resolve(own) : ask(api.GET("/v1/apps/{app}", { params: { path: { app } } }));
  });
  const isLive = owner.data?.livemode ?? true;
  return { contract: endpoint === null || asked.refusal !== null ? null : endpoint && asked.data, isLive };
}
