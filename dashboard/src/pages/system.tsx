import { useQuery } from "../api/query";
import { api, dataOf } from "../api/client";
import type { System } from "../api/schema";
import { QueryView } from "../components/query-view";
import { Card, PropertyList, Figure, PageHead } from "../components/page";
import { LongTime } from "../components/time";
import { formatBytes, countOf } from "../text/numbers";
import { NodesCard } from "./nodes";

export function SystemPage() {
  const query = useQuery("system", () => dataOf(api.GET("/v1/system")), ["stats"]);
  return (
    <>
      <PageHead title="System" />
      <QueryView query={query}>{(system) => <SystemDetails system={system} />}</QueryView>
    </>
  );
}

function SystemDetails({ system }: { system: System }) {
  const { version, started_at, store, encryption, egress } = system;
  const limit = store.store_bytes_max ?? null;
  return (
    <div class="stack">
      {store.full && (
        <p class="note bad" role="alert">
          New events are refused (507): {store.full}. Deliveries go on.
        </p>
      )}
      <div class="figures">
        <Figure
          name="Version"
          value={version}
          note={
            <>
              since <LongTime at={started_at} />
            </>
          }
        />
        <Figure name="Store" value={formatBytes(store.used_bytes)} note={limit ? `of ${formatBytes(limit)}` : store.kind} />
        <Figure
          name="Free on its disk"
          value={store.disk_free_bytes == null ? "–" : formatBytes(store.disk_free_bytes)}
          note={`at least ${formatBytes(store.disk_free_min)} must stay free`}
          {...(store.disk_free_bytes != null && store.disk_free_bytes < store.disk_free_min * 2 ? { tone: "warn" } : {})}
        />
        <Figure
          name="Log"
          value={formatBytes(store.log_bytes)}
          note={`${formatBytes(store.reusable_bytes)} of the store can be used again`}
        />
      </div>
      <NodesCard nodes={system.nodes} oldest_overdue={system.oldest_overdue ?? null} />
      {limit && (
        <Card title="Store">
          <progress max={limit} value={store.used_bytes} aria-label="Store in use" />
        </Card>
      )}
      <Card title="Secrets at rest">
        <PropertyList
          properties={[
            ["Encrypting key", <code>{encryption.key}</code>],
            ["Rotation", encryption.rotating ? "under way: secrets are being encrypted anew" : "none under way"],
            [
              "Encrypted",
              encryption.sealed.map((each) => (
                <div key={each.key}>
                  {countOf(each.count, "secret")} with <code>{each.key}</code>
                </div>
              )),
            ],
          ]}
        />
      </Card>
      <Card title="Calls out">
        <PropertyList
          properties={[
            ["Proxy", egress.proxy ? <code>{egress.proxy}</code> : "none: requests go straight out"],
            ["Names looked up", egress.proxy_resolves ? "by the proxy" : "here"],
          ]}
        />
      </Card>
    </div>
  );
}
