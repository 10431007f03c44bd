// Charts of statistics, and the choice of their time window, which is kept in the address bar.
import type { Stats } from "../api/schema";
import { Chart } from "../components/chart";
import { currentQuery, setFilters } from "../route/router";
import { formatCount } from "../text/numbers";
import { formatDuration } from "../text/times";

const HOUR = 3_600_000;
const STATS_WINDOWS = [
  { name: "1h", label: "1 h", ms: HOUR },
  { name: "24h", label: "24 h", ms: 24 * HOUR },
  { name: "72h", label: "72 h", ms: 72 * HOUR },
  { name: "7d", label: "7 d", ms: 7 * 24 * HOUR },
  { name: "30d", label: "30 d", ms: 30 * 24 * HOUR },
] as const;

export type WindowName = (typeof STATS_WINDOWS)[number]["name"];

/** Returns the address's window. Without one it is the page's default, `standard`. */
export function windowOf(query: URLSearchParams, standard: WindowName = "24h"): { name: string; from: () => string } {
  const named = (name: string | null) => STATS_WINDOWS.find((each) => each.name === name);
  const window = named(query.get("window")) ?? named(standard) ?? STATS_WINDOWS[1];
  return { name: window.name, from: () => new Date(Date.now() - window.ms).toISOString() };
}

export function WindowChoice({ standard = "24h" }: { standard?: WindowName }) {
  const chosen = windowOf(currentQuery.value, standard).name;
  return (
    <div class="segments" role="group" aria-label="Time window">
      {STATS_WINDOWS.map((each) => (
        <button
          key={each.name}
          type="button"
          aria-pressed={each.name === chosen}
          onClick={() => setFilters({ window: each.name })}
        >
          {each.label}
        </button>
      ))}
    </div>
  );
}

function timesOf(stats: Stats): number[] {
  return stats.series.map((bucket) => Date.parse(bucket.at) / 1000);
}

export function AttemptsChart({ stats }: { stats: Stats }) {
  const lines = [
    {
      label: "Succeeded",
      colour: "--good",
      isFilled: true,
      values: stats.series.map((bucket) => bucket.attempts - bucket.failed),
    },
    { label: "Failed", colour: "--bad", isFilled: true, values: stats.series.map((bucket) => bucket.failed) },
  ];
  const summary = `Attempts over time: ${formatCount(stats.totals.attempts)}, of which ${formatCount(stats.totals.failed)} failed`;
  return <Chart summary={summary} times={timesOf(stats)} lines={lines} format={formatCount} isWhole />;
}

export function EventsChart({ stats }: { stats: Stats }) {
  const lines = [
    { label: "Events", colour: "--accent", isFilled: true, values: stats.series.map((bucket) => bucket.events ?? 0) },
    { label: "Delivered", colour: "--good", values: stats.series.map((bucket) => bucket.delivered) },
    { label: "Dead", colour: "--bad", values: stats.series.map((bucket) => bucket.dead) },
    { label: "Expired", colour: "--warn", values: stats.series.map((bucket) => bucket.expired) },
  ];
  const summary = `Events and deliveries over time: ${formatCount(stats.totals.events ?? 0)} events`;
  return <Chart summary={summary} times={timesOf(stats)} lines={lines} format={formatCount} isWhole />;
}

export function LatencyChart({ stats }: { stats: Stats }) {
  const lines = [
    { label: "p50", colour: "--good", values: stats.series.map((bucket) => bucket.latency_ms.p50 ?? null) },
    { label: "p90", colour: "--warn", values: stats.series.map((bucket) => bucket.latency_ms.p90 ?? null) },
    { label: "p99", colour: "--bad", values: stats.series.map((bucket) => bucket.latency_ms.p99 ?? null) },
  ];
  return <Chart summary="Latency percentiles over time" times={timesOf(stats)} lines={lines} format={formatDuration} />;
}
