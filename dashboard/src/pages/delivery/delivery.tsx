import { type Query, useQuery } from "../../api/query";
import { api, dataOf, dataOrNull } from "../../api/client";
import { nullIfNotFound } from "../../api/error";
import type { DeliveryDetail, Endpoint } from "../../api/schema";
import { Badge } from "../../components/badge";
import { now } from "../../components/clock";
import { Copyable } from "../../components/copy";
import { Empty, QueryView } from "../../components/query-view";
import { Json } from "../../components/json";
import { Card, PropertyList, PageHead } from "../../components/page";
import { LongTime, Time } from "../../components/time";
import { paths } from "../../route/paths";
import type { ContractDocument } from "../../text/contract-document";
import { deliverySummaryOf } from "../../text/delivery-summary";
import { useContractOf } from "../app-queries";
import { type EventWithData, readEvent } from "../event";
import { Attempts } from "./attempts";
import { DeliveryButtons } from "./delivery-buttons";
import { DeliverySchedule } from "./schedule";

export function DeliveryPage({ app, id }: { app: string; id: string }) {
  const path = { app, delivery: id };
  const query = useQuery(
    `delivery ${app} ${id}`,
    () => dataOf(api.GET("/v1/apps/{app}/deliveries/{delivery}", { params: { path } })),
    ["deliveries"],
  );
  const delivery = query.data;
  const event = useQuery(
    `event of ${delivery?.event_id ?? ""}`,
    async () => (delivery ? nullIfNotFound(readEvent(app, delivery.event_id)) : undefined),
    ["events"],
  );
  const endpoint = useQuery(
    `endpoint of ${delivery?.endpoint_id ?? ""}`,
    async () =>
      delivery
        ? dataOrNull(
            api.GET("/v1/apps/{app}/endpoints/{endpoint}", { params: { path: { app, endpoint: delivery.endpoint_id } } }),
          )
        : null,
    ["endpoints"],
  );
  const { contract, isLive } = useContractOf(app, delivery ? endpoint.data : undefined);
  const context: DeliveryContext | null = delivery
    ? { app, delivery, event: event.data, endpoint: endpoint.data ?? null, contract: contract ?? null, isLive }
    : null;
  return (
    <>
      <PageHead
        title={delivery?.event_type ?? "Delivery"}
        breadcrumbs={[{ label: "Deliveries", href: paths.deliveries(app) }]}
        aside={delivery && <Badge state={delivery.status} contractStatus={delivery.contract_status} />}
      >
        {context && <DeliveryButtons context={context} refetch={query.refetch} />}
      </PageHead>
      <QueryView query={query} lines={12}>
        {() => context && <DeliveryDetails context={context} payload={event} />}
      </QueryView>
    </>
  );
}

/** A delivery with everything that belongs to it. Records that no longer exist are null. */
export interface DeliveryContext {
  app: string;
  delivery: DeliveryDetail;
  /** Undefined while loading, or after a failure. */
  event: EventWithData | null | undefined;
  endpoint: Endpoint | null;
  contract: ContractDocument | null;
  isLive: boolean;
}

function DeliveryDetails({ context, payload }: { context: DeliveryContext; payload: Query<EventWithData | null | undefined> }) {
  const { app, delivery, endpoint } = context;
  const summary = deliverySummaryOf(delivery, context.contract, now.value);
  return (
    <div class="stack">
      <div class={`note ${summary.tone}`} role="status">
        <p>
          {summary.text} {summary.nextAt && <Time at={summary.nextAt} />}
          {summary.nextAt && "."}
        </p>
        {delivery.waits_because && <p>It is kept back: {delivery.waits_because}.</p>}
        {delivery.advice && <p>{delivery.advice}</p>}
        {endpoint && delivery.status !== "delivered" && isRefusedSignature(delivery) && (
          <p>
            The receiver did not accept the signature.{" "}
            <a href={paths.endpoint(app, endpoint.id, "verify")}>Compare or rotate the secret</a>, then retry.
          </p>
        )}
        {endpoint?.status === "disabled" && delivery.status !== "delivered" && (
          <p>
            {delivery.status !== "held" && "Its endpoint is off. "}
            <a href={paths.endpoint(app, endpoint.id)}>Go to the endpoint</a> to switch it on.
          </p>
        )}
      </div>
      <div class="wide-narrow">
        <div class="stack">
          <Card title="Attempts">
            <DeliverySchedule context={context} />
            <Attempts context={context} />
          </Card>
        </div>
        <div class="stack">
          <Card>
            <PropertyList
              properties={[
                ["Endpoint", <EndpointLink context={context} />],
                ["Event", <a href={paths.event(app, delivery.event_id)}>{delivery.event_id}</a>],
                ["Delivery", <Copyable text={delivery.id} />],
                ["Created", <LongTime at={delivery.created_at} />],
                ["Ended", delivery.finished_at && <LongTime at={delivery.finished_at} />],
                [
                  "Its contract calls it",
                  delivery.contract_status !== delivery.status && <code>{delivery.contract_status}</code>,
                ],
                ["Replay of", delivery.replay_of && <a href={paths.delivery(app, delivery.replay_of)}>{delivery.replay_of}</a>],
              ]}
            />
          </Card>
          <Card title="Payload">
            <QueryView query={payload} lines={3}>
              {(event) =>
                !event || event.event.data_erased ? (
                  <Empty title={event ? "Its data was erased" : "Its event is kept no longer"} />
                ) : (
                  <Json text={event.data} label="payload" />
                )
              }
            </QueryView>
          </Card>
        </div>
      </div>
    </div>
  );
}

function isRefusedSignature(delivery: DeliveryDetail): boolean {
  const status = delivery.attempts.at(-1)?.status_code;
  return status === 401 || status === 403;
}

function EndpointLink({ context: { app, delivery, endpoint } }: { context: DeliveryContext }) {
  if (endpoint === null) return <code>{delivery.endpoint_id}</code>;
  return <a href={paths.endpoint(app, endpoint.id)}>{endpoint.url}</a>;
}
