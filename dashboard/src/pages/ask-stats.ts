// Statistics for the window that the address bar names, wherever they are shown.
import { useRef } from "preact/hooks";
import { type Asked, useAsked } from "../api/asked";
import { api, ask } from "../api/client";
import type { Stats } from "../api/schema";
import { currentQuery } from "../route/router";
import { type WindowName, windowOf } from "./stats-charts";

/** Statistics cost more to ask for than a list. */
export const STATS_PAUSE_MS = 5000;

interface Of {
  /** Null: of every app. */
  app: string | null;
  endpoint?: string;
  /** Of a page whose address names none. */
  window?: WindowName;
}

/** While those of another window are on their way, the last ones stay on show, so that nothing jumps. */
export function useStats({ app, endpoint, window: standard }: Of): Asked<Stats> {
  const window = windowOf(currentQuery.value, standard);
  const of = `${app ?? ""} ${endpoint ?? ""}`;
  const kept = useRef<{ of: string; data: Stats } | null>(null);
  const asked = useAsked(
    `stats ${of} ${window.name}`,
    () => {
      const from = window.from();
      if (app === null) return ask(api.GET("/v1/stats", { params: { query: { from } } }));
      const query = { from, ...(endpoint ? { endpoint_id: endpoint } : {}) };
      return ask(api.GET("/v1/apps/{app}/stats", { params: { path: { app }, query } }));
    },
    app === null ? ["stats"] : ["stats", "deliveries"],
    STATS_PAUSE_MS,
  );
  if (asked.data) kept.current = { of, data: asked.data };
  const isKept = asked.refusal === null && kept.current?.of === of;
  return isKept ? { ...asked, data: kept.current?.data } : asked;
}
