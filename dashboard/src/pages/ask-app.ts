// What many pages ask about an app: the app, its endpoints, and the contract that an endpoint goes by.
import { type Asked, useAsked } from "../api/asked";
import { api, ask, askIfThere } from "../api/client";
import type { App, Endpoint } from "../api/schema";
import { type ContractDocument, withOverrides } from "../words/contract";

export function useApp(app: string): Asked<App> {
  return useAsked(`app ${app}`, () => ask(api.GET("/v1/apps/{app}", { params: { path: { app } } })), ["apps"]);
}

export function useEndpoint(app: string, id: string): Asked<Endpoint> {
  const path = { app, endpoint: id };
  return useAsked(
    `endpoint ${app} ${id}`,
    () => ask(api.GET("/v1/apps/{app}/endpoints/{endpoint}", { params: { path } })),
    ["endpoints"],
  );
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

/** The document that holds for an endpoint; null where the key may not look at contracts, or it is gone. */
export function useContractOf(app: App | undefined, endpoint: Endpoint | undefined | null): ContractDocument | null | undefined {
  const name = endpoint?.contract ?? app?.contract ?? "standard";
  const isKnown = app !== undefined && endpoint !== undefined;
  const asked = useAsked(`contract ${isKnown ? name : ""}`, async () => {
    if (!isKnown) return null;
    return askIfThere(api.GET("/v1/contracts/{contract}", { params: { path: { contract: name } } }));
  });
  if (asked.refusal !== null) return null;
  if (asked.data === undefined || !isKnown) return undefined;
  if (asked.data === null) return null;
  return withOverrides(asked.data.document, app.overrides, endpoint?.overrides);
}
