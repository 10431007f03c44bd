import { useQuery } from "../api/query";
import { api, dataOf } from "../api/client";
import type { App } from "../api/schema";
import { Empty, QueryView } from "../components/query-view";
import { Card, PageHead } from "../components/page";
import { Table } from "../components/table";
import { Time } from "../components/time";
import { paths } from "../route/paths";
import { formatBytes } from "../text/numbers";
import { STATS_REFETCH_PAUSE_MS, useStats } from "./stats-query";
import { NodeName } from "./nodes";
import { StatsView } from "./stats-view";

export function Overview() {
  const stats = useStats({ app: null });
  const apps = useQuery("apps", () => dataOf(api.GET("/v1/apps", { params: { query: { limit: 1 } } })), ["apps"]);
  return (
    <>
      <PageHead title="Overview" />
      {apps.data?.data.length === 0 ? (
        <AppTable apps={[]} />
      ) : (
        <div class="stack">
          <QueryView query={stats} lines={24}>
            {(data) => <StatsView stats={data} isAllApps />}
          </QueryView>
          <Nodes />
        </div>
      )}
    </>
  );
}

/** The cluster's nodes. With an embedded store there is one. */
function Nodes() {
  const query = useQuery("system", () => dataOf(api.GET("/v1/system")), ["stats"], STATS_REFETCH_PAUSE_MS);
  return (
    <Card title="Nodes" aside={<a href={paths.system()}>System</a>}>
      <QueryView query={query} lines={2}>
        {({ nodes, store }) => (
          <Table
            caption="Nodes"
            rows={nodes}
            idOf={(row) => row.epoch}
            columns={[
              { name: "Node", isMain: true, cell: (row) => <NodeName node={row} /> },
              { name: "Version", cell: (row) => row.version },
              { name: "Events", cell: () => (store.full ? `refused: ${store.full}` : "accepted") },
              { name: "Store", isNumber: true, cell: () => formatBytes(store.used_bytes) },
              { name: "Running since", cell: (row) => <Time at={row.joined_at} /> },
            ]}
          />
        )}
      </QueryView>
    </Card>
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
