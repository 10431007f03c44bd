import { useState } from "preact/hooks";
import { api, dataOf } from "../api/client";
import { usePagedList } from "../api/paged-list";
import type { Endpoint, Replay } from "../api/schema";
import { Badge } from "../components/badge";
import { Empty } from "../components/query-view";
import { PagedTable } from "../components/paged-table";
import { PageHead } from "../components/page";
import type { Column } from "../components/table";
import { Time } from "../components/time";
import { paths } from "../route/paths";
import { mayChange } from "../session/session";
import { formatCount } from "../text/numbers";
import { useEndpoints } from "./app-queries";
import { ReplayDialog } from "./replay-dialog";

export function Replays({ app }: { app: string }) {
  const endpoints = useEndpoints(app);
  const [isOpen, setOpen] = useState(false);
  const list = usePagedList(
    `replays ${app}`,
    (cursor) => dataOf(api.GET("/v1/apps/{app}/replays", { params: { path: { app }, query: cursor ? { cursor } : {} } })),
    (row) => row.id,
    ["replays"],
  );
  return (
    <>
      <PageHead title="Replays">
        {mayChange.value && (
          <button type="button" class="primary" onClick={() => setOpen(true)}>
            Replay deliveries
          </button>
        )}
      </PageHead>
      <PagedTable
        caption="Replays"
        list={list}
        columns={columns(app, endpoints)}
        idOf={(row) => row.id}
        hrefOf={(row) => paths.replay(app, row.id)}
        empty={
          <Empty title="No replays yet">
            A replay sends many past deliveries again as one piece of work, by endpoint, type, state and time, no faster than you
            say.
          </Empty>
        }
      />
      {isOpen && <ReplayDialog app={app} endpoints={endpoints} onClose={() => setOpen(false)} />}
    </>
  );
}

function columns(app: string, endpoints: Endpoint[]): Column<Replay>[] {
  return [
    { name: "What", isMain: true, cell: (row) => <a href={paths.replay(app, row.id)}>{replayText(row, endpoints)}</a> },
    { name: "State", cell: (row) => <Badge state={row.state} /> },
    { name: "Progress", cell: (row) => <Progress replay={row} /> },
    {
      name: "Sent again",
      isNumber: true,
      cell: (row) => `${formatCount(row.replayed)} of ${formatCount(toSendCount(row))}`,
    },
    { name: "Begun", cell: (row) => <Time at={row.created_at} /> },
  ];
}

export function Progress({ replay }: { replay: Replay }) {
  const percent = Math.floor(replay.progress * 100);
  return (
    <span class="progress">
      <progress max={1} value={replay.progress} aria-label={`${percent} % done`} /> <span class="number">{percent} %</span>
    </span>
  );
}

/** Returns how many deliveries a replay sends. Deliveries that end after the count are sent too. */
export function toSendCount(replay: Replay): number {
  return Math.max(replay.total, replay.replayed + replay.refused);
}

export function replayText(replay: Replay, endpoints: Endpoint[]): string {
  const endpoint = endpoints.find((each) => each.id === replay.endpoint_id);
  const where = replay.endpoint_id ? ` to ${endpoint?.url ?? replay.endpoint_id}` : "";
  const which = replay.event_type ? `${replay.event_type} ` : "";
  return replay.kind === "backfill"
    ? `Backfill of ${which}events${where}`
    : `Replay of ${replay.status.join(", ")} ${which}deliveries${where}`;
}
