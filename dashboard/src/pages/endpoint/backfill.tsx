import { useState } from "preact/hooks";
import { api, dataOf } from "../../api/client";
import { invalidate } from "../../api/invalidation";
import type { Endpoint } from "../../api/schema";
import { Action } from "../../components/action";
import { Field } from "../../components/field";
import { Card } from "../../components/page";
import { paths } from "../../route/paths";
import { navigate } from "../../route/router";
import { countOf } from "../../text/numbers";
import { fromDateTimeField } from "../../text/times";

/** Starts a backfill: delivers past events that the endpoint subscribes to. */
export function BackfillCard({ app, endpoint }: { app: string; endpoint: Endpoint }) {
  const [from, setFrom] = useState("");
  const [message, setMessage] = useState<string | null>(null);
  const params = { params: { path: { app, endpoint: endpoint.id } } };
  const at = fromDateTimeField(from);
  const body = at ? { from: at } : {};
  return (
    <Card title="Backfill">
      <p>Brings it the past events that it subscribes to and has no delivery of, oldest first.</p>
      <div class="form">
        <Field label="Events from" type="datetime-local" value={from} onInput={setFrom} hint="Empty: all that are kept." />
        {message && <p role="status">{message}</p>}
        <div class="buttons end">
          <Action
            label="Count"
            act={async () => {
              const counts = await dataOf(
                api.POST("/v1/apps/{app}/endpoints/{endpoint}/backfill", { ...params, body: { ...body, dry_run: true } }),
              );
              setMessage(`${countOf(counts.total, "event")} would be delivered.`);
            }}
          />
          <Action
            label="Begin the backfill"
            done="The backfill began."
            confirm="Every event that it would have got is delivered to it now, at most 100 a second. It can be paused and cancelled."
            act={async () => {
              const started = await dataOf(api.POST("/v1/apps/{app}/endpoints/{endpoint}/backfill", { ...params, body }));
              invalidate("replays", "deliveries");
              if ("id" in started) navigate(paths.replay(app, started.id));
            }}
          />
        </div>
      </div>
    </Card>
  );
}
