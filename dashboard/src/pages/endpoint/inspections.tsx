import { useEffect } from "preact/hooks";
import { api, dataOf } from "../../api/client";
import { usePagedList } from "../../api/paged-list";
import type { Endpoint, Inspection, InspectionCheck } from "../../api/schema";
import { Action } from "../../components/action";
import { Badge } from "../../components/badge";
import { Empty, Skeleton, ErrorMessage } from "../../components/query-view";
import { LoadMore } from "../../components/load-more";
import { Card } from "../../components/page";
import { Time } from "../../components/time";
import { mayChange } from "../../session/session";
import { humanize, toneOf } from "../../text/states";
import { formatDuration } from "../../text/times";

const FINDING_MARKS: Record<string, string> = { passed: "✓", failed: "✗", does_not_apply: "–", unknown: "?" };

export function Inspections({ app, endpoint }: { app: string; endpoint: Endpoint }) {
  const path = { app, endpoint: endpoint.id };
  const list = usePagedList(
    `inspections ${app} ${endpoint.id}`,
    (cursor) =>
      dataOf(
        api.GET("/v1/apps/{app}/endpoints/{endpoint}/inspections", {
          params: { path, query: { limit: 10, ...(cursor ? { cursor } : {}) } },
        }),
      ),
    (row) => row.id,
  );
  const isRunning = list.rows?.some((each) => each.status === "waiting" || each.status === "running") ?? false;
  useEffect(() => {
    if (!isRunning) return undefined;
    const timer = setInterval(list.refetch, 700);
    return () => clearInterval(timer);
  }, [isRunning]);
  const run = (which: "inspect" | "ping") => async () => {
    await dataOf(api.POST(`/v1/apps/{app}/endpoints/{endpoint}/${which}`, { params: { path } }));
    list.refetch();
  };
  return (
    <div class="stack">
      <Card title="Inspect the receiver">
        <p>
          Sends a correct delivery, then a changed body, an old timestamp, an unknown signature, the same id again and odd but
          legal JSON, and says which protections the receiver has. It is test traffic and never counts for the endpoint’s health.
        </p>
        {mayChange.value && (
          <div class="buttons end">
            {endpoint.health_url && <Action label="Ping its health address" done="Asked." act={run("ping")} />}
            <Action label="Inspect now" done="The inspection began." isPrimary act={run("inspect")} />
          </div>
        )}
        {!endpoint.health_url && <p class="about">It has no health address. Set one in its settings to ping it.</p>}
      </Card>
      {list.rows === undefined ? (
        list.error ? (
          <ErrorMessage error={list.error} onRetry={list.refetch} />
        ) : (
          <Skeleton />
        )
      ) : list.rows.length === 0 ? (
        <Empty title="Not inspected yet">An inspection takes a few seconds.</Empty>
      ) : (
        list.rows.map((each) => <InspectionReport key={each.id} inspection={each} />)
      )}
      <LoadMore list={list} label="Earlier ones" />
    </div>
  );
}

function InspectionReport({ inspection }: { inspection: Inspection }) {
  const summary = inspection.report?.summary;
  return (
    <Card
      title={inspection.kind === "ping" ? "Health address" : "Inspection"}
      aside={
        <>
          {summary && (
            <span class="muted">
              {summary.passed} of {summary.passed + summary.failed + summary.unknown} passed
            </span>
          )}
          <Badge state={inspection.status} />
          <Time at={inspection.created_at} />
        </>
      }
    >
      {inspection.report ? (
        <ul class="checks">
          {inspection.report.checks.map((check) => (
            <FindingItem key={check.name} check={check} />
          ))}
        </ul>
      ) : (
        <Skeleton lines={4} />
      )}
    </Card>
  );
}

function FindingItem({ check }: { check: InspectionCheck }) {
  const isGap = check.finding === "failed" || check.finding === "unknown";
  return (
    <li>
      <span class={`mark ${toneOf(check.finding)}`} role="img" aria-label={humanize(check.finding)}>
        {FINDING_MARKS[check.finding] ?? "?"}
      </span>
      <div>
        <strong>{check.title}</strong>{" "}
        <span class="muted">
          {check.status_code ?? ""} {check.duration_ms != null && `in ${formatDuration(check.duration_ms)}`}
        </span>
        {isGap && (
          <div class="about">
            <p>
              {check.sent} {check.came_back}
            </p>
            <p>{check.why}</p>
          </div>
        )}
        {check.advice && <p class={isGap ? "" : "about"}>{check.advice}</p>}
      </div>
    </li>
  );
}
