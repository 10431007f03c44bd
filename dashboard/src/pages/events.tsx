import { api, dataOf } from "../api/client";
import { usePagedList } from "../api/paged-list";
import type { Event } from "../api/schema";
import { Badge } from "../components/badge";
import { Empty } from "../components/query-view";
import { FilterField, Filters } from "../components/filters";
import { PagedTable } from "../components/paged-table";
import { PageHead } from "../components/page";
import type { Column } from "../components/table";
import { Time } from "../components/time";
import { paths } from "../route/paths";
import { withChanges, pickQuery } from "../route/query-string";
import { currentQuery } from "../route/router";
import { permissions, mayActForProduct } from "../session/session";
import { noEventsText } from "../text/empty-lists";
import { reasonText } from "../text/states";
import { TimeFilter } from "./deliveries";
import { PublishButton } from "./publish";

const EVENT_FILTERS = ["event_type", "from", "to"] as const;

export function Events({ app }: { app: string }) {
  const query = pickQuery(currentQuery.value, EVENT_FILTERS);
  const list = usePagedList(
    `events ${app} ${withChanges(new URLSearchParams(), query)}`,
    (cursor) =>
      dataOf(api.GET("/v1/apps/{app}/events", { params: { path: { app }, query: { ...query, ...(cursor ? { cursor } : {}) } } })),
    (row) => row.id,
    ["events"],
  );
  return (
    <>
      <PageHead title="Events">{mayActForProduct.value && <PublishButton app={app} />}</PageHead>
      <Filters activeCount={Object.keys(query).length}>
        <FilterField label="Event type" name="event_type" placeholder="order.paid" />
        <TimeFilter name="from" label="From" value={query.from} />
        <TimeFilter name="to" label="Before" value={query.to} />
      </Filters>
      <PagedTable
        caption="Events"
        list={list}
        columns={eventColumns(app)}
        idOf={(row) => row.id}
        hrefOf={(row) => paths.event(app, row.id)}
        isFiltered={Object.keys(query).length > 0}
        empty={
          <Empty title="No events yet">
            {noEventsText(permissions.value)} {permissions.value.publish && <code>POST /v1/apps/{app}/events</code>}
          </Empty>
        }
      />
    </>
  );
}

export function eventColumns(app: string): Column<Event>[] {
  return [
    { name: "Type", isMain: true, cell: (row) => <a href={paths.event(app, row.id)}>{row.type}</a> },
    { name: "Id", cell: (row) => <code>{row.id}</code> },
    {
      name: "State",
      cell: (row) =>
        row.is_skipped ? (
          <span title={row.reason ? reasonText(row.reason) : undefined}>
            <Badge state="skipped" />
          </span>
        ) : (
          <Badge state="accepted" />
        ),
    },
    { name: "Key", cell: (row) => (row.key ? <code>{row.key}</code> : <span class="muted">–</span>) },
    { name: "Accepted", cell: (row) => <Time at={row.accepted_at} /> },
  ];
}
