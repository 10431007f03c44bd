import { useState } from "preact/hooks";
import { api, dataOf } from "../api/client";
import { invalidate } from "../api/invalidation";
import { usePagedList } from "../api/paged-list";
import type { DeadLetter, Endpoint } from "../api/schema";
import { Action } from "../components/action";
import { Empty } from "../components/query-view";
import { Checkbox } from "../components/field";
import { PagedTable } from "../components/paged-table";
import { PageHead } from "../components/page";
import type { Column } from "../components/table";
import { Time } from "../components/time";
import { paths } from "../route/paths";
import { pickQuery } from "../route/query-string";
import { currentQuery, setFilters } from "../route/router";
import { mayChange } from "../session/session";
import { reasonText } from "../text/states";
import { useEndpoints } from "./app-queries";
import { EndpointChoice } from "./endpoint-choice";
import { ReplayDialog } from "./replay-dialog";

export function DeadLetters({ app }: { app: string }) {
  const query = pickQuery(currentQuery.value, ["endpoint_id", "closed"]);
  const endpoints = useEndpoints(app);
  const [isReplaying, setReplaying] = useState(false);
  return (
    <>
      <PageHead title="Dead letters">
        {mayChange.value && (
          <button type="button" onClick={() => setReplaying(true)}>
            Replay many…
          </button>
        )}
      </PageHead>
      <div class="filters">
        <EndpointChoice
          endpoints={endpoints}
          value={query.endpoint_id ?? ""}
          onChange={(value) => setFilters({ endpoint_id: value })}
        />
        <Checkbox
          label="Closed ones too"
          isOn={query.closed === "true"}
          onChange={(isOn) => setFilters({ closed: isOn ? "true" : null })}
        />
      </div>
      <DeadLetterList
        app={app}
        endpoint={query.endpoint_id ?? null}
        isClosedToo={query.closed === "true"}
        endpoints={endpoints}
      />
      {isReplaying && (
        <ReplayDialog
          app={app}
          endpoints={endpoints}
          initial={{ endpoint_id: query.endpoint_id ?? "", status: ["dead"] }}
          onClose={() => setReplaying(false)}
        />
      )}
    </>
  );
}

interface ListProps {
  app: string;
  endpoint: string | null;
  isClosedToo: boolean;
  endpoints: Endpoint[];
}

export function DeadLetterList({ app, endpoint, isClosedToo, endpoints }: ListProps) {
  const query = { ...(endpoint ? { endpoint_id: endpoint } : {}), ...(isClosedToo ? { closed: true } : {}) };
  const list = usePagedList(
    `dead-letters ${app} ${endpoint ?? ""} ${isClosedToo}`,
    (cursor) =>
      dataOf(
        api.GET("/v1/apps/{app}/dead-letters", { params: { path: { app }, query: { ...query, ...(cursor ? { cursor } : {}) } } }),
      ),
    (row) => row.id,
    ["deliveries"],
  );
  return (
    <PagedTable
      caption="Dead letters"
      list={list}
      columns={columns(app, endpoint === null ? endpoints : null)}
      idOf={(row) => row.id}
      hrefOf={(row) => paths.delivery(app, row.id)}
      isFiltered={endpoint !== null && !isClosedToo}
      empty={
        <Empty title="No dead letters">
          What cannot be delivered, after every attempt that its contract allows, ends here: to be looked at, replayed or closed.
        </Empty>
      }
    />
  );
}

function columns(app: string, endpoints: Endpoint[] | null): Column<DeadLetter>[] {
  const all: (Column<DeadLetter> | null)[] = [
    { name: "Event type", isMain: true, cell: (row) => <a href={paths.delivery(app, row.id)}>{row.event_type}</a> },
    endpoints && {
      name: "Endpoint",
      cell: (row) => (
        <a href={paths.endpoint(app, row.endpoint_id)} class="clip" title={row.url ?? row.endpoint_id}>
          {row.url ?? row.endpoint_id}
        </a>
      ),
    },
    { name: "Last error", cell: (row) => <LastError row={row} /> },
    { name: "Attempts", isNumber: true, cell: (row) => row.attempt_count },
    { name: "Died", cell: (row) => <Time at={row.failed_at} /> },
    {
      name: "Kept until",
      cell: (row) => (row.expires_at ? <Time at={row.expires_at} /> : <span class="muted">deleted by hand</span>),
    },
    mayChange.value ? { name: "", cell: (row) => <DeadLetterButtons app={app} row={row} /> } : null,
  ];
  return all.filter((column) => column !== null);
}

function LastError({ row }: { row: DeadLetter }) {
  return (
    <span>
      {row.last_error ?? (row.reason ? reasonText(row.reason) : "–")}
      {row.advice && <div class="about">{row.advice}</div>}
    </span>
  );
}

function DeadLetterButtons({ app, row }: { app: string; row: DeadLetter }) {
  const path = { app, delivery: row.id };
  return (
    <div class="buttons">
      <Action
        label="Replay"
        done="On its way again, with a fresh schedule."
        isSmall
        act={async () => {
          await dataOf(api.POST("/v1/apps/{app}/dead-letters/{delivery}/replay", { params: { path } }));
          invalidate("deliveries");
        }}
      />
      {row.reason !== "closed" && (
        <Action
          label="Close"
          done="Closed."
          isSmall
          title="Marks it as dealt with; it stays on record."
          act={async () => {
            await dataOf(api.POST("/v1/apps/{app}/dead-letters/{delivery}/close", { params: { path } }));
            invalidate("deliveries");
          }}
        />
      )}
    </div>
  );
}
