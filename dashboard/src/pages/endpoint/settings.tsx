import { useState } from "preact/hooks";
import { api, dataOf } from "../../api/client";
import { invalidate } from "../../api/invalidation";
import { type ApiError, toApiError } from "../../api/error";
import type { Endpoint } from "../../api/schema";
import { Action } from "../../components/action";
import { OutdatedNote, useDraft } from "../../components/draft";
import { ErrorMessage } from "../../components/query-view";
import { Checkbox, Field } from "../../components/field";
import { Card } from "../../components/page";
import { showToast } from "../../components/toast";
import { paths } from "../../route/paths";
import { navigate } from "../../route/router";
import { isPortal } from "../../session/session";
import { parseHeaders } from "../../text/headers";
import { jsonProblem } from "../publish";
import { BackfillCard } from "./backfill";
import { endpointChangesOf, endpointDraftOf, isDraftReady } from "./draft";
import { EndpointFields } from "./form";

export function EndpointSettings({ app, endpoint }: { app: string; endpoint: Endpoint }) {
  const form = useDraft(endpointDraftOf(endpoint), endpoint.updated_at);
  const { base, draft, change } = form;
  const [headers, setHeaders] = useState("");
  const [isReplacing, setReplacing] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const path = { app, endpoint: endpoint.id };
  const overridesProblem = draft.overrides.trim() === "" ? null : jsonProblem(draft.overrides);
  const read = parseHeaders(headers);
  const isReady = isDraftReady(draft) && overridesProblem === null && (!isReplacing || read.wrong === null);

  const save = async (event: Event) => {
    event.preventDefault();
    setError(null);
    const body = {
      ...endpointChangesOf(base, draft),
      ...(isReplacing ? { headers: read.headers as Record<string, never> } : {}),
    };
    try {
      const now = await dataOf(api.PATCH("/v1/apps/{app}/endpoints/{endpoint}", { params: { path }, body }));
      form.markSaved(draft, endpointDraftOf(now), now.updated_at);
      setHeaders("");
      setReplacing(false);
      invalidate("endpoints");
      showToast("Saved.");
    } catch (error) {
      setError(toApiError(error));
    }
  };

  const names = Object.keys(endpoint.headers);
  return (
    <div class="stack">
      <Card title="Settings">
        <form onSubmit={(event) => void save(event)}>
          <EndpointFields app={app} draft={draft} change={change} error={error} />
          <div class="form">
            {!isPortal.value && (
              <Field
                label="Overrides of the contract"
                value={draft.overrides}
                onInput={(overrides) => change({ overrides })}
                rows={3}
                isCode
                problem={overridesProblem}
                placeholder='{"retry": {"waits": ["1m", "5m"]}}'
              />
            )}
            <Checkbox
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
            <OutdatedNote by={form} />
            {error && <ErrorMessage error={error} />}
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
              await dataOf(api.DELETE("/v1/apps/{app}/endpoints/{endpoint}", { params: { path } }));
              invalidate("endpoints", "deliveries");
              navigate(paths.endpoints(app));
            }}
          />
        </div>
      </Card>
    </div>
  );
}
