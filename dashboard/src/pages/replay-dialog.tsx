import { useEffect, useState } from "preact/hooks";
import { api, dataOf } from "../api/client";
import { invalidate } from "../api/invalidation";
import { toApiError } from "../api/error";
import type { Endpoint } from "../api/schema";
import { Dialog } from "../components/dialog";
import { Checkbox, Field } from "../components/field";
import { paths } from "../route/paths";
import { navigate } from "../route/router";
import { countOf } from "../text/numbers";
import { fromDateTimeField } from "../text/times";
import { EndpointChoice } from "./endpoint-choice";

const REPLAYABLE_STATES = ["dead", "expired", "cancelled", "delivered"] as const;

interface Props {
  app: string;
  endpoints: Endpoint[];
  initial?: { endpoint_id?: string; status?: string[]; from?: string };
  onClose: () => void;
}

/** Selects the deliveries to replay, and counts them while the form is filled in. */
export function ReplayDialog({ app, endpoints, initial = {}, onClose }: Props) {
  const [endpoint, setEndpoint] = useState(initial.endpoint_id ?? "");
  const [type, setType] = useState("");
  const [status, setStatus] = useState<string[]>(initial.status ?? ["dead"]);
  const [from, setFrom] = useState(initial.from ?? "");
  const [to, setTo] = useState("");
  const [speed, setSpeed] = useState("100");
  const [message, setMessage] = useState("Counting…");
  const [total, setTotal] = useState<number | null>(null);

  const [fromAt, toAt] = [fromDateTimeField(from), fromDateTimeField(to)];
  const body = {
    status,
    per_second: Number(speed) || 100,
    ...(endpoint ? { endpoint_id: endpoint } : {}),
    ...(type.trim() ? { event_type: type.trim() } : {}),
    ...(fromAt ? { from: fromAt } : {}),
    ...(toAt ? { to: toAt } : {}),
  };
  const params = { params: { path: { app } } };
  useEffect(() => {
    let isStale = false;
    setTotal(null);
    setMessage("Counting…");
    const timer = setTimeout(() => {
      dataOf(api.POST("/v1/apps/{app}/replays", { ...params, body: { ...body, dry_run: true } })).then(
        (counts) => {
          if (isStale) return;
          setTotal(counts.total);
          setMessage(`${countOf(counts.total, "delivery", "deliveries")} would be sent again.`);
        },
        (error: unknown) => isStale || setMessage(toApiError(error).message),
      );
    }, 350);
    return () => {
      isStale = true;
      clearTimeout(timer);
    };
  }, [JSON.stringify(body)]);

  const start = async () => {
    const started = await dataOf(api.POST("/v1/apps/{app}/replays", { ...params, body }));
    invalidate("replays", "deliveries");
    if ("id" in started) navigate(paths.replay(app, started.id));
  };
  const toggle = (state: string, isOn: boolean) => setStatus(isOn ? [...status, state] : status.filter((each) => each !== state));
  return (
    <Dialog
      title="Replay deliveries"
      action="Begin the replay"
      isReady={total !== null && total > 0}
      onAct={start}
      onClose={onClose}
    >
      <p class="muted">
        Dead, cancelled and expired deliveries get a fresh schedule under their own id; delivered ones become new deliveries. It
        can be paused and cancelled.
      </p>
      <div class="form">
        <div class="buttons" role="group" aria-label="Which states">
          {REPLAYABLE_STATES.map((state) => (
            <Checkbox key={state} label={state} isOn={status.includes(state)} onChange={(isOn) => toggle(state, isOn)} />
          ))}
        </div>
        <EndpointChoice endpoints={endpoints} value={endpoint} onChange={setEndpoint} />
        <Field label="Event type" value={type} onInput={setType} placeholder="every type" isCode />
        <div class="pair">
          <Field label="Created from" type="datetime-local" value={from} onInput={setFrom} />
          <Field label="Created before" type="datetime-local" value={to} onInput={setTo} />
        </div>
        <Field
          label="At most a second"
          type="number"
          value={speed}
          onInput={setSpeed}
          hint="It never brings an endpoint more than half of what that takes at once."
        />
        <p class="note" role="status">
          {message}
        </p>
      </div>
    </Dialog>
  );
}
