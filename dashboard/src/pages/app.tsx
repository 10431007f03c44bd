import { type Query, useQuery } from "../api/query";
import { api, dataOf } from "../api/client";
import type { Delivery, Endpoint } from "../api/schema";
import { Copyable } from "../components/copy";
import { Empty, QueryView } from "../components/query-view";
import { Card, PageHead } from "../components/page";
import { MarkStrip } from "../components/mark-strip";
import { Table } from "../components/table";
import { paths } from "../route/paths";
import { permissions, mayActForProduct, session } from "../session/session";
import { noDeliveriesText } from "../text/empty-lists";
import { useStats } from "./stats-query";
import { deliveryColumns, deliveryMarkOf } from "./delivery-rows";
import { endpointColumns } from "./endpoints";
import { FirstSteps } from "./first-steps";
import { PublishButton } from "./publish";
import { StatsView } from "./stats-view";

export function AppPage({ app }: { app: string }) {
  // A portal session may not read the app, but contains its name.
  const own = session.value?.app?.id === app ? session.value.app : null;
  const query = useQuery(
    `app ${app}`,
    async () => own ?? (await dataOf(api.GET("/v1/apps/{app}", { params: { path: { app } } }))),
    ["apps"],
  );
  const stats = useStats({ app });
  const endpoints = useQuery(
    `endpoints ${app}`,
    () => dataOf(api.GET("/v1/apps/{app}/endpoints", { params: { path: { app }, query: { limit: 250 } } })),
    ["endpoints"],
  );
  const isNew = endpoints.data?.data.length === 0;
  return (
    <>
      <PageHead title={query.data?.name ?? app} aside={<Copyable text={app} />}>
        {mayActForProduct.value && <PublishButton app={app} />}
      </PageHead>
      <QueryView query={query}>
        {() => (
          <div class="stack">
            {isNew && <FirstSteps app={app} permissions={permissions.value} />}
            {(!isNew || (stats.data?.totals.events ?? 0) > 0) && (
              <QueryView query={stats} lines={24}>
                {(data) => <StatsView stats={data} isAllApps={false} />}
              </QueryView>
            )}
            {!isNew && <AppActivity app={app} endpoints={endpoints} />}
          </div>
        )}
      </QueryView>
    </>
  );
}

/** The latest deliveries, deliveries in trouble, and the endpoints. */
function AppActivity({ app, endpoints }: { app: string; endpoints: Query<{ data: Endpoint[] }> }) {
  const list = (query: { status?: string; limit: number }) => () =>
    dataOf(api.GET("/v1/apps/{app}/deliveries", { params: { path: { app }, query } }));
  const recent = useQuery(`recent ${app}`, list({ limit: 80 }), ["deliveries"]);
  const troubled = useQuery(`troubled ${app}`, list({ status: "retrying,dead,held", limit: 8 }), ["deliveries"]);
  return (
    <>
      <Card title="Latest deliveries" aside={<a href={paths.deliveries(app)}>All of them</a>}>
        <QueryView query={recent} lines={2}>
          {({ data }) =>
            data.length > 0 ? (
              <MarkStrip marks={data.map((each) => deliveryMarkOf(app, each))} />
            ) : (
              <Empty title="No deliveries yet">{noDeliveriesText(permissions.value)}</Empty>
            )
          }
        </QueryView>
      </Card>
      <TroubledDeliveries app={app} query={troubled} endpoints={endpoints.data?.data ?? []} />
      <Card title="Endpoints" aside={<a href={paths.endpoints(app)}>All of them</a>}>
        <QueryView query={endpoints} lines={3}>
          {({ data }) => (
            <Table
              caption="Endpoints"
              columns={endpointColumns(app)}
              rows={disabledFirst(data).slice(0, 10)}
              idOf={(row) => row.id}
              hrefOf={(row) => paths.endpoint(app, row.id)}
            />
          )}
        </QueryView>
      </Card>
    </>
  );
}

function disabledFirst(endpoints: Endpoint[]): Endpoint[] {
  return [...endpoints].sort((one, other) => Number(one.status === "active") - Number(other.status === "active"));
}

function TroubledDeliveries({
  app,
  query,
  endpoints,
}: {
  app: string;
  query: Query<{ data: Delivery[] }>;
  endpoints: Endpoint[];
}) {
  return (
    <Card title="In trouble" aside={<a href={paths.deliveries(app, { status: "retrying,dead,held" })}>All of them</a>}>
      <QueryView query={query} lines={3}>
        {({ data: rows }) =>
          rows.length === 0 ? (
            <p class="muted">Nothing: no delivery is being retried, held or dead.</p>
          ) : (
            <Table
              caption="Deliveries in trouble"
              columns={deliveryColumns(app, endpoints)}
              rows={rows}
              idOf={(row) => row.id}
              hrefOf={(row) => paths.delivery(app, row.id)}
            />
          )
        }
      </QueryView>
    </Card>
  );
}
