import { useState } from "preact/hooks";
import { api, ask } from "../../api/client";
import { hint } from "../../api/hints";
import { type Refusal, asRefusal } from "../../api/problem";
import type { Endpoint } from "../../api/schema";
import { Action } from "../../parts/action";
import { Trouble } from "../../parts/feedback";
import { Check, Field } from "../../parts/field";
import { Card } from "../../parts/page";
import { say } from "../../parts/toast";
import { paths } from "../../route/paths";
import { go } from "../../route/router";
import { isPortal } from "../../session/session";
import { readHeaders } from "../../words/headers";
import { readPatterns } from "../../words/subscriptions";
import { jsonProblem } from "../publish";
import { BackfillCard } from "./backfill";
import { type Draft, EndpointFields, isDraftReady, rateOf } from "./form";

function draftOf(endpoint: Endpoint): Draft {
  return {
    url: endpoint.url,
    description: endpoint.description ?? "",
    types: endpoint.event_types.join(" "),
    contract: endpoint.contract ?? "",
    healthUrl: endpoint.health_url ?? "",
    inFlight: endpoint.max_in_flight?.toString() ?? "",
    version: endpoint.payload_version ?? "",
    ordered: endpoint.ordered,
    onDead: endpoint.on_dead ?? "",
    perSecond: endpoint.rate_limit?.per_second.toString() ?? "",
  };
}

function overridesOf(endpoint: Endpoint): string {
  return endpoint.overrides ? JSON.stringify(endpoint.overrides, null, 2) : "";
}

/** Only what was changed: the audit log names it, and some fields are not for every key. */
function changesOf(before: Draft, after: Draft) {
  const isChanged = (name: keyof Draft) => before[name] !== after[name];
  return {
    ...(isChanged("url") ? { url: after.url.trim() } : {}),
    ...(isChanged("description") ? { description: after.description.trim() || null } : {}),
    ...(isChanged("types") ? { event_types: readPatterns(after.types).patterns } : {}),
    ...(isChanged("contract") ? { contract: after.contract || null } : {}),
    ...(isChanged("healthUrl") ? { health_url: after.healthUrl.trim() || null } : {}),
    ...(isChanged("inFlight") ? { max_in_flight: after.inFlight === "" ? null : Number(after.inFlight) } : {}),
    ...(isChanged("version") ? { payload_version: after.version.trim() || null } : {}),
    ...(isChanged("ordered") ? { ordered: after.ordered } : {}),
    ...(isChanged("onDead") && after.onDead !== "" ? { on_dead: after.onDead } : {}),
    ...(isChanged("perSecond") ? { rate_limit: rateOf(after.perSecond) } : {}),
  };
}

export function EndpointSettings({ app, endpoint }: { app: string; endpoint: Endpoint }) {
  const [draft, setDraft] = useState(() => draftOf(endpoint));
  const [overrides, setOverrides] = useState(overridesOf(endpoint));
  const [headers, setHeaders] = useState("");
  const [isReplacing, setReplacing] = useState(false);
  const [refusal, setRefusal] = useState<Refusal | null>(null);
  const path = { app, endpoint: endpoint.id };
  const overridesProblem = overrides.trim() === "" ? null : jsonProblem(overrides);
  const read = readHeaders(headers);
  const isReady = isDraftReady(draft) && overridesProblem === null && (!isReplacing || read.wrong === null);

  const save = async (event: Event) => {
    event.preventDefault();
    setRefusal(null);
    const body = {
      ...changesOf(draftOf(endpoint), draft),
      ...(overrides === overridesOf(endpoint)
        ? {}
        : { overrides: overrides.trim() === "" ? null : (JSON.parse(overrides) as Record<string, never>) }),
      ...(isReplacing ? { headers: read.headers as Record<string, never> } : {}),
    };
    try {
      await ask(api.PATCH("/v1/apps/{app}/endpoints/{endpoint}", { params: { path }, body }));
      hint("endpoints");
      say("Saved.");
    } catch (error) {
      setRefusal(asRefusal(error));
    }
  };

  const names = Object.keys(endpoint.headers);
  return (
    <div class="stack">
      <Card title="Settings">
        <form onSubmit={(event) => void save(event)}>
          <EndpointFields app={app} draft={draft} change={(changes) => setDraft({ ...draft, ...changes })} refusal={refusal} />
          <div class="form">
            {!isPortal.value && (
              <Field
                label="Overrides of the contract"
                value={overrides}
                onInput={setOverrides}
                rows={3}
                isCode
                problem={overridesProblem}
                placeholder='{"retry": {"waits": ["1m", "5m"]}}'
              />
            )}
            <Check
              label={`Replace the headers that every request has${names.length > 0 ? ` (now: ${names.join(", ")})` : ""}`}
              isOn={isReplacing}
              onChange={setReplacing}
            />
            {isReplacing && (
              <Field
                label="Headers"
                value={headers}
                onInput={setHeaders}
                rows={3}
                isCode
                problem={read.wrong}
                placeholder="Authorization: Bearer …"
                hint="One a line, Name: value. Stored encrypted, never shown again."
              />
            )}
            {refusal && <Trouble refusal={refusal} />}
            <div class="buttons end">
              <button type="submit" class="primary" disabled={!isReady}>
                Save
              </button>
            </div>
          </div>
        </form>
      </Card>
      <BackfillCard app={app} endpoint={endpoint} />
      <Card title="Delete the endpoint">
        <p>Its waiting deliveries are cancelled; its history stays.</p>
        <div class="buttons end">
          <Action
            label="Delete the endpoint"
            done="Deleted."
            isDangerous
            confirm="Deliveries that wait for it are cancelled. This cannot be undone."
            act={async () => {
              await ask(api.DELETE("/v1/apps/{app}/endpoints/{endpoint}", { params: { path } }));
              hint("endpoints", "deliveries");
              go(paths.endpoints(app));
            }}
          />
        </div>
      </Card>
    </div>
  );
}
