import { api, dataOf } from "../api/client";
import { usePagedList } from "../api/paged-list";
import type { AuditEntry } from "../api/schema";
import { Empty } from "../components/query-view";
import { FilterField, Filters } from "../components/filters";
import { PagedTable } from "../components/paged-table";
import { PageHead } from "../components/page";
import type { Column } from "../components/table";
import { Time } from "../components/time";
import { withChanges, pickQuery } from "../route/query-string";
import { currentQuery } from "../route/router";
import { TimeFilter } from "./deliveries";

const AUDIT_FILTERS = ["app_id", "key_id", "action", "from", "to"] as const;
const AUDIT_ACTIONS = [
  "app.created",
  "app.changed",
  "app.deleted",
  "endpoint.created",
  "endpoint.changed",
  "endpoint.enabled",
  "endpoint.disabled",
  "endpoint.deleted",
  "secret.rotated",
  "key.created",
  "key.revoked",
  "portal_link.created",
  "portal_link.revoked",
  "event_type.created",
  "event_type.changed",
  "event_type.deleted",
  "event_type.archived",
  "event_type.unarchived",
  "event.erased",
  "delivery.retried",
  "delivery.replayed",
  "delivery.cancelled",
  "delivery.closed",
  "delivery.deleted",
  "replay.begun",
  "replay.paused",
  "replay.resumed",
  "replay.cancelled",
];

/** The audit log of all apps, or of one. */
export function Audit({ app }: { app: string | null }) {
  const { app_id, ...query } = pickQuery(currentQuery.value, AUDIT_FILTERS);
  const list = usePagedList(
    `audit ${app ?? ""} ${withChanges(new URLSearchParams(), { ...query, app_id })}`,
    (cursor) => {
      const filters = { ...query, ...(cursor ? { cursor } : {}) };
      if (app !== null) return dataOf(api.GET("/v1/apps/{app}/audit", { params: { path: { app }, query: filters } }));
      return dataOf(api.GET("/v1/audit", { params: { query: { ...filters, ...(app_id ? { app_id } : {}) } } }));
    },
    (row) => row.id,
  );
  return (
    <>
      <PageHead title={app === null ? "Audit" : "Changes"} />
      <Filters activeCount={Object.keys(query).length + (app_id ? 1 : 0)}>
        {app === null && <FilterField label="App" name="app_id" />}
        <FilterField label="Action" name="action" suggestions={AUDIT_ACTIONS} />
        <FilterField label="Key" name="key_id" placeholder="key_… or settings" />
        <TimeFilter name="from" label="From" value={query.from} />
        <TimeFilter name="to" label="Before" value={query.to} />
      </Filters>
      <PagedTable
        caption="Changes"
        list={list}
        columns={columns(app)}
        idOf={(row) => row.id}
        isFiltered={Object.keys(query).length > 0 || app_id !== undefined}
        empty={
          <Empty title="Nobody changed anything yet">Every change that somebody makes with a key leaves an entry here.</Empty>
        }
      />
    </>
  );
}

function columns(app: string | null): Column<AuditEntry>[] {
  const all: (Column<AuditEntry> | null)[] = [
    { name: "Action", isMain: true, cell: (row) => row.action },
    { name: "To what", cell: (row) => <code>{row.thing}</code> },
    app === null ? { name: "App", cell: (row) => row.app_id ?? <span class="muted">–</span> } : null,
    {
      name: "By",
      cell: (row) => (
        <span title={row.key_id}>
          {row.key_name ?? row.key_id} <span class="muted">({row.scope})</span>
        </span>
      ),
    },
    { name: "Detail", cell: (row) => (row.detail ? <code>{detailText(row.detail)}</code> : <span class="muted">–</span>) },
    { name: "When", cell: (row) => <Time at={row.at} /> },
  ];
  return all.filter((column) => column !== null);
}

function detailText(detail: object): string {
  return Object.entries(detail)
    .map(
      ([name, value]) =>
        `${name}: ${Array.isArray(value) ? value.join(", ") : typeof value === "object" ? JSON.stringify(value) : String(value)}`,
    )
    .join("; ");
}
