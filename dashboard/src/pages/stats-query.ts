// Queries statistics for the time window in the address bar.
import { useRef } from "preact/hooks";
import { type Query, useQuery } from "../api/query";
import { api, dataOf } from "../api/client";
import type { Stats } from "../api/schema";
import { currentQuery } from "../route/router";
import { type WindowName, windowOf } from "./stats-charts";

/** Minimum pause between loads. Statistics cost the server more than a list. */
export const STATS_REFETCH_PAUSE_MS = 5000;

interface StatsScope {
  /** Null for all apps. */
  app: string | null;
  endpoint?: string;
  /** Default window, if the address has none. */
  window?: WindowName;
}

/** Loads statistics. While another window is loading, the last statistics are returned, so that the page does not jump. */
export function useStats({ app, endpoint, window: standard }: StatsScope): Query<Stats> {
  const window = windowOf(currentQuery.value, standard);
  const scope = `${app ?? ""} ${endpoint ?? ""}`;
  const lastShown = useRef<{ scope: string; data: Stats } | null>(null);
  const query = useQuery(
    `stats ${scope} ${window.name}`,
    () => {
      const from = window.from();
      if (app === null) return dataOf(api.GET("/v1/stats", { params: { query: { from } } }));
      const filters = { from, ...(endpoint ? { endpoint_id: endpoint } : {}) };
      return dataOf(api.GET("/v1/apps/{app}/stats", { params: { path: { app }, query: filters } }));
    },
    app === null ? ["stats"] : ["stats", "deliveries"],
    STATS_REFETCH_PAUSE_MS,
  );
  if (query.data) lastShown.current = { scope, data: query.data };
  const isSameScope = query.error === null && lastShown.current?.scope === scope;
  return isSameScope ? { ...query, data: lastShown.current?.data } : query;
}
