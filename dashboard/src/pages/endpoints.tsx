import { useState } from "preact/hooks";
import { useQuery } from "../api/query";
import { api, dataOf } from "../api/client";
import { invalidate } from "../api/invalidation";
import { usePagedList } from "../api/paged-list";
import { type ApiError, toApiError } from "../api/error";
import type { Endpoint } from "../api/schema";
import { Badge } from "../components/badge";
import { Dialog } from "../components/dialog";
import { Empty } from "../components/query-view";
import { PagedTable } from "../components/paged-table";
import { PageHead } from "../components/page";
import { OneTimeSecret } from "../components/one-time-secret";
import type { Column } from "../components/table";
import { Time } from "../components/time";
import { paths } from "../route/paths";
import { navigate } from "../route/router";
import { permissions, mayChange } from "../session/session";
import { BUCKET_STATES, bucketStateOf } from "../text/health";
import { noEndpointsText } from "../text/empty-lists";
import { formatCount, countOf, formatPercent } from "../text/numbers";
import { LISTED_ENDPOINTS_MAX, successRateOf } from "../text/success-rate";
import { STATS_REFETCH_PAUSE_MS } from "./stats-query";
import { EMPTY_ENDPOINT_DRAFT, isDraftReady, newEndpointBody } from "./endpoint/draft";
import { EndpointFields } from "./endpoint/form";

export function Endpoints({ app }: { app: string }) {
  const [isOpen, setOpen] = useState(false);
  const list = usePagedList(
    `endpoints ${app}`,
    (cursor) => dataOf(api.GET("/v1/apps/{app}/endpoints", { params: { path: { app }, query: cursor ? { cursor } : {} } })),
    (row) => row.id,
    ["endpoints"],
  );
  const success = useSuccess(app);
  return (
    <>
      <PageHead title="Endpoints">
        {mayChange.value && (
          <button type="button" class="primary" onClick={() => setOpen(true)}>
            Add an endpoint
          </button>
        )}
      </PageHead>
      <PagedTable
        caption="Endpoints"
        list={list}
        columns={[...endpointColumns(app), success]}
        idOf={(row) => row.id}
        hrefOf={(row) => paths.endpoint(app, row.id)}
        empty={<Empty title="No endpoints yet">{noEndpointsText(permissions.value)}</Empty>}
      />
      {isOpen && <NewEndpoint app={app} onClose={() => setOpen(false)} />}
    </>
  );
}

export function endpointColumns(app: string): Column<Endpoint>[] {
  return [
    {
      name: "URL",
      isMain: true,
      cell: (row) => (
        <>
          <a href={paths.endpoint(app, row.id)}>{row.url}</a>
          {row.description && <div class="about">{row.description}</div>}
        </>
      ),
    },
    { name: "State", cell: (row) => <Badge state={row.status} /> },
    { name: "Event types", cell: (row) => <EventTypeChips types={row.event_types} /> },
    { name: "Contract", cell: (row) => row.contract ?? <span class="muted nowrap">the app’s</span> },
    { name: "Created", cell: (row) => <Time at={row.created_at} /> },
  ];
}

/** Returns a column with each endpoint's success rate. One query serves all rows. */
function useSuccess(app: string): Column<Endpoint> {
  const query = useQuery(
    `success ${app}`,
    () => dataOf(api.GET("/v1/apps/{app}/stats", { params: { path: { app } } })),
    ["stats", "deliveries"],
    STATS_REFETCH_PAUSE_MS,
  );
  const cell = ({ id }: Endpoint) => {
    const found = query.data ? successRateOf(query.data.endpoints, id) : "nothing sent";
    if (found === "nothing sent") return <span class="muted">–</span>;
    if (found === "not listed") return <span class="muted about">not among the {LISTED_ENDPOINTS_MAX} that fail most</span>;
    const tone = BUCKET_STATES[bucketStateOf(found, false)].tone;
    return (
      <span class={`answer ${tone}`} title={`${formatCount(found.failed)} of ${countOf(found.attempts, "attempt")} failed`}>
        {formatPercent(found.success_rate)}
      </span>
    );
  };
  return { name: "Success, 24 h", isNumber: true, cell };
}

function EventTypeChips({ types }: { types: string[] }) {
  return (
    <span title={types.join("\n")}>
      {types.slice(0, 3).map((each) => (
        <span key={each} class="chip">
          {each}
        </span>
      ))}
      {types.length > 3 && <span class="muted">and {types.length - 3} more</span>}
    </span>
  );
}

function NewEndpoint({ app, onClose }: { app: string; onClose: () => void }) {
  const [draft, setDraft] = useState(EMPTY_ENDPOINT_DRAFT);
  const [error, setError] = useState<ApiError | null>(null);
  const [created, setCreated] = useState<Endpoint | null>(null);
  const create = async () => {
    setError(null);
    try {
      setCreated(await dataOf(api.POST("/v1/apps/{app}/endpoints", { params: { path: { app } }, body: newEndpointBody(draft) })));
      invalidate("endpoints");
    } catch (error) {
      setError(toApiError(error));
      throw error;
    }
  };
  if (created !== null) {
    return (
      <OneTimeSecret
        title="The endpoint is there"
        about="Give this secret to the receiver. It verifies with it that requests come from here."
        secret={created.secret ?? ""}
        onClose={() => navigate(paths.endpoint(app, created.id, "verify"))}
      >
        Next: how to verify, in five languages, and a test event.
      </OneTimeSecret>
    );
  }
  return (
    <Dialog title="Add an endpoint" action="Add it" isReady={isDraftReady(draft)} onAct={create} onClose={onClose}>
      <EndpointFields app={app} draft={draft} change={(changes) => setDraft({ ...draft, ...changes })} error={error} />
    </Dialog>
  );
}
