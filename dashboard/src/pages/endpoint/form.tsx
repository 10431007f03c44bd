// The form fields of an endpoint, for a new one and for its settings.
import { useQuery } from "../../api/query";
import { api, dataOf } from "../../api/client";
import type { ApiError } from "../../api/error";
import { Choice, Field } from "../../components/field";
import { isPortal } from "../../session/session";
import { parsePatterns } from "../../text/subscriptions";
import type { EndpointDraft } from "./draft";
import { MatchCount } from "./match-count";

interface Props {
  app: string;
  draft: EndpointDraft;
  change: (changes: Partial<EndpointDraft>) => void;
  error: ApiError | null;
}

export function EndpointFields({ app, draft, change, error }: Props) {
  const contracts = useQuery("contracts", async () =>
    isPortal.value ? null : dataOf(api.GET("/v1/contracts", { params: { query: { limit: 250 } } })),
  );
  const names = contracts.data?.data.map((each) => each.name) ?? [];
  const { patterns, wrong } = parsePatterns(draft.types);
  const problem = (field: string) => (error?.field?.startsWith(field) ? error.text : null);
  return (
    <div class="form">
      <Field
        label="URL"
        type="url"
        value={draft.url}
        onInput={(url) => change({ url })}
        placeholder="https://example.com/webhooks"
        isRequired
        isCode
        problem={problem("url")}
      />
      <Field
        label="Event types"
        value={draft.types}
        onInput={(types) => change({ types })}
        rows={2}
        isCode
        placeholder="every type"
        problem={wrong.length > 0 ? `Not an event type or pattern: ${wrong.join(", ")}` : problem("event_types")}
        hint={
          <>
            Exact types, <code>order.*</code> or <code>*</code>, separated by spaces. <MatchCount app={app} patterns={patterns} />
          </>
        }
      />
      <Field
        label="Description"
        value={draft.description}
        onInput={(description) => change({ description })}
        problem={problem("description")}
      />
      {!isPortal.value && (
        <Choice
          label="Contract"
          value={draft.contract}
          options={[{ value: "", label: "The app’s, else standard" }, ...names.map((name) => ({ value: name, label: name }))]}
          onChange={(contract) => change({ contract })}
          problem={problem("contract")}
          hint="What receivers are promised: bytes, signature, times of attempts."
        />
      )}
      <Field
        label="Health address"
        type="url"
        value={draft.healthUrl}
        onInput={(healthUrl) => change({ healthUrl })}
        isCode
        problem={problem("health_url")}
        hint="Answers a GET with 2xx while the receiver is well; for pings and inspections."
      />
      {!isPortal.value && <SendingFields draft={draft} change={change} problem={problem} />}
      <div class="pair">
        <Field
          label="Payload version"
          value={draft.version}
          onInput={(version) => change({ version })}
          placeholder="as published"
          isCode
          problem={problem("payload_version")}
        />
      </div>
    </div>
  );
}

interface SendingFieldsProps extends Pick<Props, "draft" | "change"> {
  problem: (field: string) => string | null;
}

/** Limits and order of sending. Customers may not change them. */
function SendingFields({ draft, change, problem }: SendingFieldsProps) {
  return (
    <>
      <div class="pair">
        <Field
          label="Requests at once"
          type="number"
          value={draft.inFlight}
          onInput={(inFlight) => change({ inFlight })}
          placeholder="64"
          problem={problem("max_in_flight")}
        />
        <Field
          label="Requests in a second"
          type="number"
          value={draft.perSecond}
          onInput={(perSecond) => change({ perSecond })}
          placeholder="no limit"
          problem={problem("rate_limit.per_second")}
        />
      </div>
      {draft.perSecond !== "" && (
        <div class="pair">
          <Field
            label="Burst"
            type="number"
            value={draft.burst}
            onInput={(burst) => change({ burst })}
            placeholder={draft.perSecond}
            problem={problem("rate_limit.burst")}
            hint="How many at once after a while without any; a second’s worth if empty."
          />
        </div>
      )}
      <div class="pair">
        <Choice
          label="Order"
          value={draft.ordered}
          options={[
            { value: "none", label: "none: as fast as it goes" },
            { value: "endpoint", label: "endpoint: one after the other" },
            { value: "key", label: "key: one after the other for each key" },
          ]}
          onChange={(ordered) => change({ ordered, ...(ordered === "none" ? { onDead: "" } : {}) })}
          problem={problem("ordered")}
        />
        {draft.ordered !== "none" && (
          <Choice
            label="When one is dead"
            value={draft.onDead || "block"}
            options={[
              { value: "block", label: "block: the next waits until somebody has looked" },
              { value: "skip", label: "skip: go on with the next" },
            ]}
            onChange={(onDead) => change({ onDead })}
            problem={problem("on_dead")}
          />
        )}
      </div>
    </>
  );
}
