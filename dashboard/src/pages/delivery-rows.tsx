// The columns of every list of deliveries.
import type { Delivery, Endpoint } from "../api/schema";
import { Badge } from "../components/badge";
import { now } from "../components/clock";
import type { Mark } from "../components/mark-strip";
import type { Column } from "../components/table";
import { Time } from "../components/time";
import { paths } from "../route/paths";
import { reasonText, toneOf } from "../text/states";

export function deliveryColumns(
  app: string,
  endpoints: Endpoint[],
  leaveOut: "endpoint" | "event" | null = null,
): Column<Delivery>[] {
  const urls = new Map(endpoints.map((each) => [each.id, each.url]));
  const columns: Column<Delivery>[] = [
    { name: "Event type", isMain: true, cell: (row) => <a href={paths.delivery(app, row.id)}>{row.event_type}</a> },
    { name: "State", cell: (row) => <Badge state={row.status} contractStatus={row.contract_status} /> },
    {
      name: "Endpoint",
      cell: (row) => (
        <a href={paths.endpoint(app, row.endpoint_id)} class="clip" title={row.endpoint_id}>
          {urls.get(row.endpoint_id) ?? row.endpoint_id}
        </a>
      ),
    },
    { name: "Attempts", isNumber: true, cell: (row) => row.attempt_count },
    { name: "Next or last", cell: (row) => <NextOrLast row={row} /> },
    { name: "Created", cell: (row) => <Time at={row.created_at} /> },
  ];
  return columns.filter((column) => !(leaveOut === "endpoint" && column.name === "Endpoint"));
}

function NextOrLast({ row }: { row: Delivery }) {
  if (row.next_attempt_at) {
    return (
      <span>
        {row.last_error ?? "waits"},{" "}
        <span class="nowrap">
          {Date.parse(row.next_attempt_at) > now.value ? "next" : "due"} <Time at={row.next_attempt_at} />
        </span>
      </span>
    );
  }
  if (row.status === "delivered") return <Time at={row.finished_at} />;
  if (row.status === "held") return <span class="muted">its endpoint is off</span>;
  if (row.last_error) return <span title={row.reason ? reasonText(row.reason) : undefined}>{row.last_error}</span>;
  return <span class="muted">{row.reason ? reasonText(row.reason) : "–"}</span>;
}

export function deliveryMarkOf(app: string, delivery: Delivery): Mark {
  const label = `${delivery.event_type}: ${delivery.status}`;
  const title = delivery.last_error ? `${label}, ${delivery.last_error}` : label;
  return { id: delivery.id, href: paths.delivery(app, delivery.id), tone: toneOf(delivery.status), label, title };
}
