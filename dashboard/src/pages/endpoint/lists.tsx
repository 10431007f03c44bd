import { useState } from "preact/hooks";
import { api, dataOf } from "../../api/client";
import { usePagedList } from "../../api/paged-list";
import { Empty } from "../../components/query-view";
import { Checkbox } from "../../components/field";
import { PagedTable } from "../../components/paged-table";
import { paths } from "../../route/paths";
import { permissions } from "../../session/session";
import { nothingSentText } from "../../text/empty-lists";
import { DeadLetterList } from "../dead-letters";
import { deliveryColumns } from "../delivery-rows";

export function EndpointDeliveries({ app, id }: { app: string; id: string }) {
  const list = usePagedList(
    `deliveries ${app} ${id}`,
    (cursor) =>
      dataOf(
        api.GET("/v1/apps/{app}/deliveries", {
          params: { path: { app }, query: { endpoint_id: id, ...(cursor ? { cursor } : {}) } },
        }),
      ),
    (row) => row.id,
    ["deliveries"],
  );
  return (
    <>
      <p class="above">
        <a href={paths.deliveries(app, { endpoint_id: id })}>Filter these deliveries</a>
      </p>
      <PagedTable
        caption="Deliveries to this endpoint"
        list={list}
        columns={deliveryColumns(app, [], "endpoint")}
        idOf={(row) => row.id}
        hrefOf={(row) => paths.delivery(app, row.id)}
        empty={<Empty title="Nothing was sent here yet">{nothingSentText(permissions.value)}</Empty>}
      />
    </>
  );
}

export function EndpointDeadLetters({ app, id }: { app: string; id: string }) {
  const [isClosedToo, setClosedToo] = useState(false);
  return (
    <div class="stack">
      <Checkbox label="Closed ones too" isOn={isClosedToo} onChange={setClosedToo} />
      <DeadLetterList app={app} endpoint={id} isClosedToo={isClosedToo} endpoints={[]} />
    </div>
  );
}
