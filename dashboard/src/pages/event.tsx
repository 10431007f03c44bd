import { api, dataOf } from "../api/client";
import { useQuery } from "../api/query";
import { invalidate } from "../api/invalidation";
import type { EventDetail } from "../api/schema";
import { Action } from "../components/action";
import { Badge } from "../components/badge";
import { Copyable } from "../components/copy";
import { Empty, QueryView } from "../components/query-view";
import { Json } from "../components/json";
import { Card, PropertyList, PageHead } from "../components/page";
import { Table } from "../components/table";
import { LongTime } from "../components/time";
import { paths } from "../route/paths";
import { mayActForProduct } from "../session/session";
import { member } from "../text/json-text";
import { reasonText } from "../text/states";
import { useEndpoints } from "./app-queries";
import { deliveryColumns } from "./delivery-rows";

export interface EventWithData {
  event: EventDetail;
  /** The payload as published, byte for byte. */
  data: string;
}

/** Loads an event as text, because JavaScript would round large numbers in its payload. */
export async function readEvent(app: string, event: string): Promise<EventWithData> {
  const response = api.GET("/v1/apps/{app}/events/{event}", { params: { path: { app, event } }, parseAs: "text" });
  const text = (await dataOf(response)) as unknown as string;
  return { event: JSON.parse(text) as EventDetail, data: member(text, "data") ?? "null" };
}

export function EventPage({ app, id }: { app: string; id: string }) {
  const query = useQuery(`event ${app} ${id}`, () => readEvent(app, id), ["events", "deliveries"]);
  const endpoints = useEndpoints(app);
  return (
    <>
      <PageHead
        title={query.data?.event.type ?? "Event"}
        breadcrumbs={[{ label: "Events", href: paths.events(app) }]}
        aside={query.data?.event.is_skipped ? <Badge state="skipped" /> : null}
      >
        {query.data && mayActForProduct.value && !query.data.event.data_erased && (
          <Action
            label="Erase the data"
            done="The data was erased."
            isDangerous
            confirm="What the event carried is erased for good; that it was, and its deliveries, stay on record. Deliveries that still wait cannot be sent any more."
            act={async () => {
              await dataOf(api.DELETE("/v1/apps/{app}/events/{event}/data", { params: { path: { app, event: id } } }));
              invalidate("events");
              query.refetch();
            }}
          />
        )}
      </PageHead>
      <QueryView query={query}>
        {({ event, data }) => (
          <div class="stack">
            <Card>
              <PropertyList
                properties={[
                  ["Id", <Copyable text={event.id} />],
                  ["Created", <LongTime at={event.created_at} />],
                  ["Accepted", <LongTime at={event.accepted_at} />],
                  ["To be delivered", event.deliver_at && <LongTime at={event.deliver_at} />],
                  ["Key", event.key && <code>{event.key}</code>],
                ]}
              />
            </Card>
            <Card title="Deliveries">
              {event.deliveries.length > 0 ? (
                <Table
                  caption="Deliveries of this event"
                  columns={deliveryColumns(app, endpoints)}
                  rows={event.deliveries}
                  idOf={(row) => row.id}
                  hrefOf={(row) => paths.delivery(app, row.id)}
                />
              ) : (
                <Empty title="It was delivered to nobody">
                  {event.reason ? `Skipped: ${reasonText(event.reason)}. ` : ""}
                  An <a href={paths.endpoints(app)}>endpoint</a> that subscribes to it later can get it by a backfill.
                </Empty>
              )}
            </Card>
            <Card title="Data">
              {event.data_erased ? <Empty title="Its data was erased" /> : <Json text={data} label="data of the event" />}
            </Card>
          </div>
        )}
      </QueryView>
    </>
  );
}
