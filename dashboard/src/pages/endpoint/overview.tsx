import { type Query, useQuery } from "../../api/query";
import { api, dataOf } from "../../api/client";
import type { Endpoint, EndpointHealth } from "../../api/schema";
import { Copyable } from "../../components/copy";
import { Empty, QueryView } from "../../components/query-view";
import { Card, PropertyList } from "../../components/page";
import { Table } from "../../components/table";
import { LongTime } from "../../components/time";
import { paths } from "../../route/paths";
import { permissions } from "../../session/session";
import { nothingSentText } from "../../text/empty-lists";
import { formatCount, formatPercent } from "../../text/numbers";
import { formatDuration } from "../../text/times";
import { LatestAttempts } from "./latest-attempts";
import { Traffic } from "./traffic";

interface Props {
  app: string;
  endpoint: Endpoint;
  health: Query<EndpointHealth>;
}

export function EndpointOverview({ app, endpoint, health }: Props) {
  const path = { app, endpoint: endpoint.id };
  const latest = useQuery(
    `attempts ${app} ${endpoint.id}`,
    () => dataOf(api.GET("/v1/apps/{app}/endpoints/{endpoint}/attempts", { params: { path } })),
    ["deliveries"],
  );
  return (
    <div class="stack">
      <Traffic app={app} endpoint={endpoint} health={health.data ?? null} />
      <Card title="Health">
        <QueryView query={health} lines={8}>
          {(data) => <HealthDetails health={data} />}
        </QueryView>
      </Card>
      <Card title="Recent attempts" aside={<a href={paths.endpoint(app, endpoint.id, "deliveries")}>All deliveries</a>}>
        <QueryView query={latest} lines={3}>
          {({ data: attempts }) =>
            attempts.length === 0 ? (
              <Empty title="Nothing was sent here yet">{nothingSentText(permissions.value)}</Empty>
            ) : (
              <LatestAttempts app={app} attempts={attempts} />
            )
          }
        </QueryView>
      </Card>
      <Card title="About">
        <PropertyList
          properties={[
            ["Id", <Copyable text={endpoint.id} />],
            ["Description", endpoint.description],
            [
              "Event types",
              endpoint.event_types.map((each) => (
                <span key={each} class="chip">
                  {each}
                </span>
              )),
            ],
            [
              "Contract",
              endpoint.contract ? (
                <a href={paths.contract(endpoint.contract)}>{endpoint.contract}</a>
              ) : (
                "the app’s, else standard"
              ),
            ],
            ["Overrides", endpoint.overrides && <code>{JSON.stringify(endpoint.overrides)}</code>],
            ["Payload version", endpoint.payload_version],
            ["At once", endpoint.max_in_flight],
            [
              "Requests in a second",
              endpoint.rate_limit && `${endpoint.rate_limit.per_second}, ${endpoint.rate_limit.burst} at once`,
            ],
            [
              "Order",
              endpoint.ordered &&
                endpoint.ordered !== "none" &&
                `${endpoint.ordered}${endpoint.on_dead ? `, a dead one: ${endpoint.on_dead}` : ""}`,
            ],
            ["Health address", endpoint.health_url && <code>{endpoint.health_url}</code>],
            [
              "Headers",
              Object.keys(endpoint.headers).map((each) => (
                <span key={each} class="chip">
                  {each}
                </span>
              )),
            ],
            [
              "Client certificate",
              endpoint.tls?.client_certificate && (
                <>
                  ends <LongTime at={endpoint.tls.client_certificate.expires_at} />
                </>
              ),
            ],
            ["Metadata", endpoint.metadata && <code>{JSON.stringify(endpoint.metadata)}</code>],
            ["Created", <LongTime at={endpoint.created_at} />],
          ]}
        />
      </Card>
    </div>
  );
}

function HealthDetails({ health }: { health: EndpointHealth }) {
  return (
    <div class="stack">
      {health.off_at && (
        <p class="note warn">
          It will be switched off <LongTime at={health.off_at} /> unless something succeeds before.
        </p>
      )}
      <PropertyList
        properties={[
          ["State since", <LongTime at={health.since} />],
          ["Failed attempts in a row", formatCount(health.consecutive_failures)],
          ["Undelivered events in a row", formatCount(health.failed_events_in_a_row)],
          ["Last error", health.last_error],
          ["First failure since the last success", health.first_failure_at && <LongTime at={health.first_failure_at} />],
          ["Last success", health.last_success_at && <LongTime at={health.last_success_at} />],
        ]}
      />
      <Table
        caption="Health by window"
        rows={Object.entries(health.windows).map(([window, counts]) => ({ window, ...counts }))}
        idOf={(row) => row.window}
        columns={[
          { name: "Last", isMain: true, cell: (row) => row.window },
          { name: "Attempts", isNumber: true, cell: (row) => formatCount(row.attempts) },
          { name: "Failed", isNumber: true, cell: (row) => formatCount(row.failed) },
          { name: "Success", isNumber: true, cell: (row) => formatPercent(row.success_rate) },
          { name: "p50", isNumber: true, cell: (row) => milliseconds(row.latency_ms.p50) },
          { name: "p90", isNumber: true, cell: (row) => milliseconds(row.latency_ms.p90) },
          { name: "p99", isNumber: true, cell: (row) => milliseconds(row.latency_ms.p99) },
        ]}
      />
    </div>
  );
}

function milliseconds(value: number | null | undefined): string {
  return value == null ? "–" : formatDuration(value);
}
