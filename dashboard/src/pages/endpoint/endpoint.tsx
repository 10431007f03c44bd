import { useQuery } from "../../api/query";
import { api, dataOf } from "../../api/client";
import type { Endpoint } from "../../api/schema";
import { Badge } from "../../components/badge";
import { QueryView } from "../../components/query-view";
import { PageHead, Tabs } from "../../components/page";
import { LongTime } from "../../components/time";
import { paths } from "../../route/paths";
import { mayChange } from "../../session/session";
import { reasonText } from "../../text/states";
import { useContractOf, useEndpoint } from "../app-queries";
import { EndpointButtons } from "./endpoint-buttons";
import { EndpointDeadLetters, EndpointDeliveries } from "./lists";
import { EndpointOverview } from "./overview";
import { EndpointSettings } from "./settings";
import { Inspections } from "./inspections";
import { Verify } from "./verify";

export function EndpointPage({ app, id, tab }: { app: string; id: string; tab: string }) {
  const query = useEndpoint(app, id);
  const path = { app, endpoint: id };
  const health = useQuery(
    `health ${app} ${id}`,
    () => dataOf(api.GET("/v1/apps/{app}/endpoints/{endpoint}/health", { params: { path } })),
    ["endpoints", "deliveries"],
  );
  const endpoint = query.data;
  const state = health.data?.state ?? endpoint?.status;
  const tabs = [
    { label: "Overview", href: paths.endpoint(app, id) },
    { label: "Deliveries", href: paths.endpoint(app, id, "deliveries") },
    { label: "Dead letters", href: paths.endpoint(app, id, "dead-letters") },
    { label: "Inspect", href: paths.endpoint(app, id, "inspect") },
    { label: "Verify", href: paths.endpoint(app, id, "verify") },
    ...(mayChange.value ? [{ label: "Settings", href: paths.endpoint(app, id, "settings") }] : []),
  ];
  return (
    <>
      <PageHead
        title={endpoint?.url ?? id}
        breadcrumbs={[{ label: "Endpoints", href: paths.endpoints(app) }]}
        aside={state && <Badge state={state} />}
      >
        {endpoint && mayChange.value && <EndpointButtons app={app} endpoint={endpoint} />}
      </PageHead>
      {endpoint && <DisabledNote endpoint={endpoint} />}
      <Tabs label="Endpoint" tabs={tabs} />
      <QueryView query={query}>
        {(shown) =>
          tab === "deliveries" ? (
            <EndpointDeliveries app={app} id={id} />
          ) : tab === "dead-letters" ? (
            <EndpointDeadLetters app={app} id={id} />
          ) : tab === "inspect" ? (
            <Inspections app={app} endpoint={shown} />
          ) : tab === "verify" ? (
            <VerifyTab app={app} endpoint={shown} />
          ) : tab === "settings" ? (
            <EndpointSettings app={app} endpoint={shown} />
          ) : (
            <EndpointOverview app={app} endpoint={shown} health={health} />
          )
        }
      </QueryView>
    </>
  );
}

function VerifyTab({ app, endpoint }: { app: string; endpoint: Endpoint }) {
  const { contract } = useContractOf(app, endpoint);
  return <Verify app={app} endpoint={endpoint} contract={contract} />;
}

const DISABLED_BY_TEXTS: Record<string, string> = {
  receiver: "by its receiver",
  posthaste: "by a rule of its contract",
  settings: "with the key of the settings",
};

function DisabledNote({ endpoint }: { endpoint: Endpoint }) {
  if (endpoint.status !== "disabled") return null;
  return (
    <p class="note held" role="status">
      Switched off {endpoint.disabled_by && (DISABLED_BY_TEXTS[endpoint.disabled_by] ?? `with the key ${endpoint.disabled_by}`)}{" "}
      <LongTime at={endpoint.disabled_at} />
      {endpoint.disabled_reason && `: ${reasonText(endpoint.disabled_reason)}`}. What waits is held or was cancelled, as its
      contract says. Tests still go out.
    </p>
  );
}
