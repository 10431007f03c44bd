// The latest attempts at an endpoint, of all its deliveries: one mark each, and the newest in a table.
import type { EndpointAttempt } from "../../api/schema";
import { AnswerBadge } from "../../components/badge";
import { type Mark, MarkStrip } from "../../components/mark-strip";
import { type Column, Table } from "../../components/table";
import { Time } from "../../components/time";
import { paths } from "../../route/paths";
import { attemptText } from "../../text/attempts";
import { formatDuration } from "../../text/times";

const ATTEMPT_ROWS_MAX = 8;

export function LatestAttempts({ app, attempts }: { app: string; attempts: EndpointAttempt[] }) {
  return (
    <div class="stack">
      <MarkStrip marks={attempts.map((each) => attemptMarkOf(app, each))} />
      <Table
        caption="Recent attempts"
        columns={columns(app)}
        rows={attempts.slice(0, ATTEMPT_ROWS_MAX)}
        idOf={(row) => row.id}
        hrefOf={(row) => paths.delivery(app, row.delivery_id)}
      />
    </div>
  );
}

function attemptMarkOf(app: string, attempt: EndpointAttempt): Mark {
  const tone = attempt.success ? "good" : attempt.number == null ? "" : "bad";
  return { id: attempt.id, href: paths.delivery(app, attempt.delivery_id), tone, label: attemptText(attempt).what };
}

function columns(app: string): Column<EndpointAttempt>[] {
  return [
    {
      name: "Answer",
      isMain: true,
      cell: (row) => <AnswerBadge code={row.status_code} kind={row.class} success={row.success} />,
    },
    { name: "What happened", cell: (row) => attemptText(row).what },
    { name: "Took", isNumber: true, cell: (row) => formatDuration(row.duration_ms) },
    { name: "Attempt", isNumber: true, cell: (row) => row.number ?? "–" },
    {
      name: "Delivery",
      cell: (row) => (
        <a href={paths.delivery(app, row.delivery_id)} class="clip">
          {row.delivery_id}
        </a>
      ),
    },
    { name: "When", cell: (row) => <Time at={row.started_at} /> },
  ];
}
