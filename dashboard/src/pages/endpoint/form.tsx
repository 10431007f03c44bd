// The fields of an endpoint, for making one and for changing one.
import { useAsked } from "../../api/asked";
import { api, askIfThere } from "../../api/client";
import type { Refusal } from "../../api/problem";
import { Choice, Field } from "../../parts/field";
import { isPortal } from "../../session/session";
import { readPatterns } from "../../words/subscriptions";
import { MatchCount } from "./match-count";

export interface Draft {
  url: string;
  description: string;
  types: string;
  contract: string;
  healthUrl: string;
  inFlight: string;
  version: string;
  ordered: string;
}

export const EMPTY_DRAFT: Draft = {
  url: "",
  description: "",
  types: "",
  contract: "",
  healthUrl: "",
  inFlight: "",
  version: "",
  ordered: "none",
};

interface Props {
  app: string;
  draft: Draft;
  change: (changes: Partial<Draft>) => void;
  refusal: Refusal | null;
}

export function EndpointFields({ app, draft, change, refusal }: Props) {
  const contracts = useAsked("contracts", () => askIfThere(api.GET("/v1/contracts", { params: { query: { limit: 250 } } })));
  const names = contracts.data?.data.map((each) => each.name) ?? [];
  const { patterns, wrong } = readPatterns(draft.types);
  const problem = (field: string) => (refusal?.field?.startsWith(field) ? refusal.text : null);
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
      <div class="pair">
        {!isPortal.value && (
          <Field
            label="Requests at once"
            type="number"
            value={draft.inFlight}
            onInput={(inFlight) => change({ inFlight })}
            placeholder="64"
            problem={problem("max_in_flight")}
          />
        )}
        <Choice
          label="Order"
          value={draft.ordered}
          options={[
            { value: "none", label: "none: as fast as it goes" },
            { value: "endpoint", label: "endpoint: one after the other" },
            { value: "key", label: "key: one after the other for each key" },
          ]}
          onChange={(ordered) => change({ ordered })}
          problem={problem("ordered")}
        />
      </div>
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

export function isDraftReady(draft: Draft): boolean {
  return draft.url.trim() !== "" && readPatterns(draft.types).wrong.length === 0;
}
