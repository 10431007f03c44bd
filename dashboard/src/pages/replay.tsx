import { api, dataOf } from "../api/client";
import { useQuery } from "../api/query";
import { invalidate } from "../api/invalidation";
import type { Replay } from "../api/schema";
import { Action } from "../components/action";
import { Badge } from "../components/badge";
import { Copyable } from "../components/copy";
import { QueryView } from "../components/query-view";
import { Card, PropertyList, Figure, PageHead } from "../components/page";
import { LongTime } from "../components/time";
import { paths } from "../route/paths";
import { mayChange } from "../session/session";
import { formatCount } from "../text/numbers";
import { useEndpoints } from "./app-queries";
import { Progress, replayText, toSendCount } from "./replays";

export function ReplayPage({ app, id }: { app: string; id: string }) {
  const path = { app, replay: id };
  const query = useQuery(`replay ${app} ${id}`, () => dataOf(api.GET("/v1/apps/{app}/replays/{replay}", { params: { path } })), [
    "replays",
  ]);
  const endpoints = useEndpoints(app);
  return (
    <>
      <PageHead
        title={query.data ? replayText(query.data, endpoints) : "Replay"}
        breadcrumbs={[{ label: "Replays", href: paths.replays(app) }]}
        aside={query.data && <Badge state={query.data.state} />}
      >
        {query.data && mayChange.value && <ReplayButtons path={path} replay={query.data} refetch={query.refetch} />}
      </PageHead>
      <QueryView query={query}>
        {(replay) => (
          <div class="stack">
            <Card>
              <Progress replay={replay} />
            </Card>
            <div class="figures">
              <Figure name="To send again" value={formatCount(toSendCount(replay))} />
              <Figure name="Sent again" value={formatCount(replay.replayed)} />
              <Figure
                name="Could not be"
                value={formatCount(replay.refused)}
                note={replay.last_refusal ?? undefined}
                {...(replay.refused > 0 ? { tone: "warn" } : {})}
              />
              <Figure
                name="A second"
                value={replay.average_per_second.toFixed(1)}
                note={`at most ${formatCount(replay.per_second)}`}
              />
            </div>
            <Card>
              <PropertyList
                properties={[
                  ["Id", <Copyable text={replay.id} />],
                  ["Begun", <LongTime at={replay.created_at} />],
                  ["Last changed", <LongTime at={replay.changed_at} />],
                  ["Finished", replay.finished_at && <LongTime at={replay.finished_at} />],
                  ["Endpoint", replay.endpoint_id && <a href={paths.endpoint(app, replay.endpoint_id)}>{replay.endpoint_id}</a>],
                  ["Event type", replay.event_type],
                  ["Made from", replay.from && <LongTime at={replay.from} />],
                  ["Made before", <LongTime at={replay.to} />],
                ]}
              />
            </Card>
          </div>
        )}
      </QueryView>
    </>
  );
}

function ReplayButtons({
  path,
  replay,
  refetch,
}: {
  path: { app: string; replay: string };
  replay: Replay;
  refetch: () => void;
}) {
  const after = () => {
    invalidate("replays", "deliveries");
    refetch();
  };
  return (
    <>
      {replay.state === "running" && (
        <Action
          label="Pause"
          done="Paused."
          act={() => dataOf(api.POST("/v1/apps/{app}/replays/{replay}/pause", { params: { path } })).then(after)}
        />
      )}
      {replay.state === "paused" && (
        <Action
          label="Resume"
          done="Goes on."
          isPrimary
          act={() => dataOf(api.POST("/v1/apps/{app}/replays/{replay}/resume", { params: { path } })).then(after)}
        />
      )}
      {(replay.state === "running" || replay.state === "paused") && (
        <Action
          label="Cancel the replay"
          done="Cancelled."
          isDangerous
          confirm="What was sent again by now stays so; the rest is left as it is."
          act={() => dataOf(api.DELETE("/v1/apps/{app}/replays/{replay}", { params: { path } })).then(after)}
        />
      )}
    </>
  );
}
