// An endpoint's health, attempts and latency within the time window of the address bar.
import { useMemo } from "preact/hooks";
import { useQuery } from "../../api/query";
import { api, dataOf } from "../../api/client";
import type { Endpoint, EndpointHealth, Stats } from "../../api/schema";
import { QueryView } from "../../components/query-view";
import { HealthStrip } from "../../components/health-strip";
import { Card } from "../../components/page";
import { LongTime } from "../../components/time";
import { isPortal } from "../../session/session";
import { STATE_CHANGE_KINDS, bucketsOf, stateChangesOf } from "../../text/health";
import { useStats } from "../stats-query";
import { AttemptsChart, LatencyChart, WindowChoice } from "../stats-charts";

const DEFAULT_WINDOW = "72h";
const BUCKETS_MAX = 96;
const CHANGES_SHOWN_MAX = 6;

interface Props {
  app: string;
  endpoint: Endpoint;
  health: EndpointHealth | null;
}

export function Traffic({ app, endpoint, health }: Props) {
  const stats = useStats({ app, endpoint: endpoint.id, window: DEFAULT_WINDOW });
  // Only the first card shows the error of a failed refetch.
  const charted = stats.data ? { ...stats, error: null } : stats;
  return (
    <>
      <Card title="Health over time" aside={<WindowChoice standard={DEFAULT_WINDOW} />}>
        <QueryView query={stats} lines={4}>
          {(data) => <HealthTimeline app={app} endpoint={endpoint} health={health} stats={data} />}
        </QueryView>
      </Card>
      <div class="two">
        <Card title="Attempts">
          <QueryView query={charted} lines={8}>
            {(data) => <AttemptsChart stats={data} />}
          </QueryView>
        </Card>
        <Card title="Latency">
          <QueryView query={charted} lines={8}>
            {(data) => <LatencyChart stats={data} />}
          </QueryView>
        </Card>
      </div>
    </>
  );
}

function HealthTimeline({ app, endpoint, health, stats }: Props & { stats: Stats }) {
  const history = useQuery(
    `changes ${app} ${endpoint.id}`,
    async () => {
      const path = { app };
      const query = { endpoint_id: endpoint.id, limit: 250 };
      const [notices, audit] = await Promise.all([
        dataOf(api.GET("/v1/apps/{app}/notices", { params: { path, query } })),
        // Customers may not read the audit log.
        isPortal.value
          ? null
          : dataOf(api.GET("/v1/apps/{app}/audit", { params: { path, query: { action: "endpoint.enabled", limit: 250 } } })),
      ]);
      return { notices: notices.data, enabledEntries: audit?.data ?? [] };
    },
    ["notices", "endpoints"],
  );
  const { notices, enabledEntries } = history.data ?? { notices: [], enabledEntries: [] };
  const changes = useMemo(
    () => stateChangesOf({ notices, enabledEntries, health, endpoint }),
    [history.data, health?.state, health?.since, endpoint.id, endpoint.disabled_at],
  );
  const isDisabledNow = endpoint.status === "disabled";
  const buckets = useMemo(
    () => bucketsOf({ stats, changes, isDisabledNow, bucketsMax: BUCKETS_MAX }),
    [stats, changes, isDisabledNow],
  );
  const shown = buckets.flatMap((each) => each.changes).reverse();
  return (
    <>
      <HealthStrip buckets={buckets} />
      {shown.length > 0 && (
        <ul class="feed" aria-label="Changes of its state">
          {shown.slice(0, CHANGES_SHOWN_MAX).map((each) => (
            <li key={`${each.kind} ${each.atMs}`}>
              <div class="line">
                <span class={`badge ${STATE_CHANGE_KINDS[each.kind].tone}`}>{STATE_CHANGE_KINDS[each.kind].label}</span>
                <span>{each.text}</span>
                <span class="when">
                  <LongTime at={new Date(each.atMs).toISOString()} />
                </span>
              </div>
            </li>
          ))}
        </ul>
      )}
      {shown.length > CHANGES_SHOWN_MAX && (
        <p class="about">And {shown.length - CHANGES_SHOWN_MAX} earlier ones: see the notices.</p>
      )}
    </>
  );
}
