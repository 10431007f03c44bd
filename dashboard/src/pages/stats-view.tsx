// Statistics of one app or of all: figures, charts, and the most frequent failures.
import type { Stats } from "../api/schema";
import { Badge } from "../components/badge";
import { Empty } from "../components/query-view";
import { Card, Figure } from "../components/page";
import { Table } from "../components/table";
import { Time } from "../components/time";
import { paths } from "../route/paths";
import { formatCount, formatPercent } from "../text/numbers";
import { humanize } from "../text/states";
import { formatDuration } from "../text/times";
import { AttemptsChart, EventsChart, LatencyChart, WindowChoice } from "./stats-charts";

export function StatsView({ stats, isAllApps }: { stats: Stats; isAllApps: boolean }) {
  const { totals, backlog } = stats;
  const rate = totals.success_rate ?? null;
  const tone = rate === null ? "" : rate >= 0.99 ? "good" : rate >= 0.9 ? "warn" : "bad";
  return (
    <div class="stack">
      <div class="figures">
        <Figure name="Events" value={formatCount(totals.events ?? 0)} />
        <Figure name="Delivered" value={formatCount(totals.delivered)} />
        <Figure
          name="Success of attempts"
          value={formatPercent(rate)}
          tone={tone}
          note={`${formatCount(totals.failed)} of ${formatCount(totals.attempts)} failed`}
        />
        <Figure
          name="Latency"
          value={totals.latency_ms.p50 == null ? "–" : formatDuration(totals.latency_ms.p50)}
          note={percentiles(stats)}
        />
        <Figure
          name="Waiting"
          value={formatCount(backlog.waiting)}
          note={
            backlog.oldest_due_at ? (
              <>
                oldest due <Time at={backlog.oldest_due_at} />
              </>
            ) : (
              `${formatCount(backlog.held)} held`
            )
          }
        />
        <Figure
          name="Dead"
          value={formatCount(totals.dead)}
          note={`${formatCount(totals.expired)} expired`}
          {...(totals.dead > 0 ? { tone: "bad" } : {})}
        />
      </div>
      <Card title="Events and deliveries" aside={<WindowChoice />}>
        <EventsChart stats={stats} />
      </Card>
      <div class="two">
        <Card title="Attempts">
          <AttemptsChart stats={stats} />
        </Card>
        <Card title="Latency">
          <LatencyChart stats={stats} />
        </Card>
      </div>
      <div class="two">
        <Card title="Endpoints that fail most">
          <WorstEndpoints stats={stats} isAllApps={isAllApps} />
        </Card>
        <Card title="Why attempts failed">
          <Failures stats={stats} />
        </Card>
      </div>
      {stats.event_types.length > 0 && (
        <Card title="Event types">
          <EventTypeTable stats={stats} />
        </Card>
      )}
    </div>
  );
}

function percentiles(stats: Stats): string {
  const { p90, p99 } = stats.totals.latency_ms;
  return [p90 != null && `p90 ${formatDuration(p90)}`, p99 != null && `p99 ${formatDuration(p99)}`].filter(Boolean).join(", ");
}

function WorstEndpoints({ stats, isAllApps }: { stats: Stats; isAllApps: boolean }) {
  const failing = stats.endpoints.filter((each) => each.failed > 0);
  if (failing.length === 0) {
    const isIdle = stats.totals.attempts === 0;
    return <Empty title="None fails">{isIdle ? "Nothing was sent" : "Every attempt succeeded"} in this window.</Empty>;
  }
  return (
    <Table
      caption="Endpoints that fail most"
      rows={failing}
      idOf={(row) => `${row.app_id} ${row.endpoint_id}`}
      hrefOf={(row) => paths.endpoint(row.app_id, row.endpoint_id)}
      columns={[
        {
          name: "Endpoint",
          isMain: true,
          cell: (row) => (
            <>
              <a href={paths.endpoint(row.app_id, row.endpoint_id)}>{row.url}</a>
              {isAllApps && <div class="about">{row.app_id}</div>}
            </>
          ),
        },
        { name: "State", cell: (row) => <Badge state={row.status} /> },
        { name: "Failed", isNumber: true, cell: (row) => formatCount(row.failed) },
        { name: "Success", isNumber: true, cell: (row) => formatPercent(row.success_rate) },
      ]}
    />
  );
}

function EventTypeTable({ stats }: { stats: Stats }) {
  return (
    <Table
      caption="Event types"
      rows={stats.event_types.slice(0, 10)}
      idOf={(row) => row.event_type}
      columns={[
        { name: "Event type", isMain: true, cell: (row) => (row.event_type === "*" ? "others" : <code>{row.event_type}</code>) },
        { name: "Events", isNumber: true, cell: (row) => formatCount(row.events ?? 0) },
        { name: "Attempts", isNumber: true, cell: (row) => formatCount(row.attempts) },
        { name: "Success", isNumber: true, cell: (row) => formatPercent(row.success_rate) },
        { name: "p99", isNumber: true, cell: (row) => (row.latency_ms.p99 == null ? "–" : formatDuration(row.latency_ms.p99)) },
      ]}
    />
  );
}

function Failures({ stats }: { stats: Stats }) {
  if (stats.failures.length === 0) return <Empty title="Nothing failed" />;
  const most = Math.max(...stats.failures.map((each) => each.count));
  return (
    <div class="bars">
      {stats.failures.map((each) => (
        <div key={each.code}>
          <span>{/^\d+$/.test(each.code) ? `HTTP ${each.code}` : humanize(each.code)}</span>
          <progress max={most} value={each.count} aria-label={`${each.code}: ${each.count}`} />
          <span class="number">{formatCount(each.count)}</span>
        </div>
      ))}
    </div>
  );
}
