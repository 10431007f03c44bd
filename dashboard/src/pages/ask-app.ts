// What many pages ask about an app: the app, its endpoints, and the contract that an endpoint goes by.
import { type Asked, useAsked } from "../api/asked";
import { api, ask, askIfThere } from "../api/client";
import type { App, Endpoint } from "../api/schema";
import { isPortal } from "../session/session";
import { type ContractDocument, withOverrides } from "../words/contract";

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
  const asked = useAsked(
    endpoint === undefined ? "" : `contract ${app} ${endpoint?.contract ?? ""} ${endpoint?.id ?? ""}`,
    async () => {
      if (endpoint === undefined) return null;
      // A portal link does not show the app: then the endpoint's own contract, or the default, is all there is to go by.
      const owner = isPortal.value ? null : await ask(api.GET("/v1/apps/{app}", { params: { path: { app } } }));
      const contract = endpoint?.contract ?? owner?.contract ?? "standard";
      const found = await askIfThere(api.GET("/v1/contracts/{contract}", { params: { path: { contract } } }));
      const document = found && withOverrides(found.document, owner?.overrides, endpoint?.overrides);
      return { document, isLive: owner?.livemode ?? true };
    },
  );
  const isLive = asked.data?.isLive ?? true;
  if (asked.refusal !== null) return { contract: null, isLive };
  return { contract: asked.data?.document, isLive };
}
