import { api, dataOf } from "../api/client";
import { usePagedList } from "../api/paged-list";
import { Empty } from "../components/query-view";
import { Choice, Field } from "../components/field";
import { FilterField, Filters } from "../components/filters";
import { PagedTable } from "../components/paged-table";
import { PageHead } from "../components/page";
import { withChanges, pickQuery } from "../route/query-string";
import { paths } from "../route/paths";
import { currentQuery, setFilters } from "../route/router";
import { permissions } from "../session/session";
import { noDeliveriesText } from "../text/empty-lists";
import { DELIVERY_STATES, humanize } from "../text/states";
import { fromDateTimeField, toDateTimeField } from "../text/times";
import { useEndpoints } from "./app-queries";
import { deliveryColumns } from "./delivery-rows";
import { EndpointChoice } from "./endpoint-choice";

const DELIVERY_FILTERS = ["status", "endpoint_id", "event_type", "event_id", "from", "to", "order"] as const;

export function Deliveries({ app }: { app: string }) {
  const query = pickQuery(currentQuery.value, DELIVERY_FILTERS);
  const endpoints = useEndpoints(app);
  const list = usePagedList(
    `deliveries ${app} ${withChanges(new URLSearchParams(), query)}`,
    (cursor) =>
      dataOf(
        api.GET("/v1/apps/{app}/deliveries", { params: { path: { app }, query: { ...query, ...(cursor ? { cursor } : {}) } } }),
      ),
    (row) => row.id,
    ["deliveries"],
  );
  const states = new Set((query.status ?? "").split(",").filter((each) => each !== ""));
  const toggle = (state: string) => {
    if (states.has(state)) states.delete(state);
    else states.add(state);
    setFilters({ status: [...states].join(",") });
  };
  const isFiltered = Object.keys(query).length > 0;
  return (
    <>
      <PageHead title="Deliveries">
        {isFiltered && (
          <a class="button" href={paths.deliveries(app)}>
            Clear filters
          </a>
        )}
      </PageHead>
      <div class="states" role="group" aria-label="States">
        {DELIVERY_STATES.map((state) => (
          <button key={state} type="button" aria-pressed={states.has(state)} onClick={() => toggle(state)}>
            {humanize(state)}
          </button>
        ))}
      </div>
      <Filters activeCount={Object.keys(query).length}>
        <EndpointChoice
          endpoints={endpoints}
          value={query.endpoint_id ?? ""}
          onChange={(value) => setFilters({ endpoint_id: value })}
        />
        <FilterField label="Event type" name="event_type" placeholder="order.paid" />
        <FilterField label="Event id" name="event_id" />
        <TimeFilter name="from" label="Created from" value={query.from} />
        <TimeFilter name="to" label="Created before" value={query.to} />
        <Choice
          label="Order"
          value={query.order ?? ""}
          options={[
            { value: "", label: "Newest first" },
            { value: "next_attempt_at", label: "Waiting, next due first" },
          ]}
          onChange={(value) => setFilters({ order: value })}
        />
      </Filters>
      <PagedTable
        caption="Deliveries"
        list={list}
        columns={deliveryColumns(app, endpoints)}
        idOf={(row) => row.id}
        hrefOf={(row) => paths.delivery(app, row.id)}
        isFiltered={isFiltered}
        empty={
          <Empty title="No deliveries yet">
            A delivery is made for every <a href={paths.endpoints(app)}>endpoint</a> that wants a published event.{" "}
            {noDeliveriesText(permissions.value)}
          </Empty>
        }
      />
    </>
  );
}

export function TimeFilter({ name, label, value }: { name: string; label: string; value: string | undefined }) {
  return (
    <Field
      label={label}
      type="datetime-local"
      value={value && !Number.isNaN(Date.parse(value)) ? toDateTimeField(value) : ""}
      onInput={(text) => setFilters({ [name]: fromDateTimeField(text) })}
    />
  );
}
