import { useAsked } from "../api/asked";
import { api, ask, askIfThere } from "../api/client";
import type { App } from "../api/schema";
import { Empty, Shown } from "../parts/feedback";
import { Card, Figure, Head } from "../parts/page";
import { Table } from "../parts/table";
import { Time } from "../parts/time";
import { paths } from "../route/paths";
import { currentQuery } from "../route/router";
import { bytes, count } from "../words/numbers";
import { StatsView } from "./stats-view";
import { STATS_PAUSE_MS, windowOf } from "./stats-charts";

export function Overview() {
  const window = windowOf(currentQuery.value);
  const stats = useAsked(
    `stats ${window.name}`,
    () => askIfThere(api.GET("/v1/stats", { params: { query: { from: window.from() } } })),
    ["stats"],
    STATS_PAUSE_MS,
  );
  return (
    <>
      <Head title="Overview" />
      <Shown asked={stats}>{(data) => (data === null ? <WithoutStats /> : <StatsView stats={data} isOfAll />)}</Shown>
    </>
  );
}

/** What can be said without statistics: how the server is, which apps there are, and what died in them. */
function WithoutStats() {
  const system = useAsked("system", () => ask(api.GET("/v1/system")), ["stats"], STATS_PAUSE_MS);
  const apps = useAsked("apps", () => ask(api.GET("/v1/apps", { params: { query: { limit: 250 } } })), ["apps"]);
  const store = system.data?.store;
  return (
    <div class="stack">
      <div class="figures">
        <Figure name="Apps" value={apps.data ? `${count(apps.data.data.length)}${apps.data.next_cursor ? "+" : ""}` : "–"} />
        <Figure
          name="Accepting events"
          value={store ? (store.full ? "No" : "Yes") : "–"}
          tone={store?.full ? "bad" : "good"}
          note={store?.full ?? undefined}
        />
        <Figure
          name="Store"
          value={store ? bytes(store.used_bytes) : "–"}
          note={store?.disk_free_bytes ? `${bytes(store.disk_free_bytes)} free` : undefined}
        />
        <Figure
          name="Running since"
          value={<Time at={system.data?.started_at} />}
          note={system.data && `version ${system.data.version}`}
        />
      </div>
      <Card title="Apps">
        <Shown asked={apps}>{({ data }) => <AppTable apps={data} />}</Shown>
      </Card>
    </div>
  );
}

export function AppTable({ apps }: { apps: App[] }) {
  if (apps.length === 0) {
    return (
      <Empty title="No apps yet">
        An app is a tenant: a merchant, an organisation, a customer. <a href={paths.apps()}>Create the first one</a>, add an
        endpoint to it, and publish an event.
      </Empty>
    );
  }
  return (
    <Table
      caption="Apps"
      rows={apps}
      idOf={(row) => row.id}
      hrefOf={(row) => paths.app(row.id)}
      columns={[
        { name: "Name", isMain: true, cell: (row) => <a href={paths.app(row.id)}>{row.name}</a> },
        { name: "Id", cell: (row) => <code>{row.id}</code> },
        { name: "Contract", cell: (row) => row.contract ?? <span class="muted">standard</span> },
        { name: "Mode", cell: (row) => (row.livemode ? "live" : "test") },
        { name: "Created", cell: (row) => <Time at={row.created_at} /> },
      ]}
    />
  );
}
