import { useState } from "preact/hooks";
import { api, dataOf } from "../api/client";
import { invalidate } from "../api/invalidation";
import { type ApiError, toApiError } from "../api/error";
import type { App } from "../api/schema";
import { Action } from "../components/action";
import { Copyable } from "../components/copy";
import { OutdatedNote, useDraft } from "../components/draft";
import { QueryView, ErrorMessage } from "../components/query-view";
import { Checkbox, Field } from "../components/field";
import { Card, PropertyList, PageHead } from "../components/page";
import { LongTime } from "../components/time";
import { showToast } from "../components/toast";
import { paths } from "../route/paths";
import { navigate } from "../route/router";
import { appChangesOf, appDraftOf } from "./app-draft";
import { ContractChoice } from "./apps";
import { useApp } from "./app-queries";

export function AppSettings({ app }: { app: string }) {
  const query = useApp(app);
  return (
    <>
      <PageHead title="Settings" breadcrumbs={[{ label: query.data?.name ?? app, href: paths.app(app) }]} />
      <QueryView query={query}>{(data) => <Settings app={data} />}</QueryView>
    </>
  );
}

function Settings({ app }: { app: App }) {
  const form = useDraft(appDraftOf(app), app.updated_at);
  const { base, draft, change } = form;
  const [error, setError] = useState<ApiError | null>(null);
  const path = { app: app.id };
  const problem = (field: string) => (error?.field?.startsWith(field) ? error.text : null);

  const save = async (event: Event) => {
    event.preventDefault();
    setError(null);
    try {
      const body = appChangesOf(base, draft);
      const now = await dataOf(api.PATCH("/v1/apps/{app}", { params: { path }, body }));
      form.markSaved(draft, appDraftOf(now), now.updated_at);
      invalidate("apps");
      showToast("Saved.");
    } catch (error) {
      setError(toApiError(error));
    }
  };

  return (
    <div class="stack">
      <Card title="The app">
        <form class="form" onSubmit={(event) => void save(event)}>
          <Field label="Name" value={draft.name} onInput={(name) => change({ name })} isRequired problem={problem("name")} />
          <Field
            label="Contact e-mail"
            type="email"
            value={draft.email}
            onInput={(email) => change({ email })}
            problem={problem("contact_email")}
            hint="Who hears of endpoints in trouble."
          />
          <ContractChoice value={draft.contract} onChange={(contract) => change({ contract })} />
          <div class="pair">
            <Field
              label="Events a second, at most"
              type="number"
              value={draft.events}
              onInput={(events) => change({ events })}
              placeholder="no quota"
              problem={problem("quota")}
            />
            <Field
              label="Bytes a second, at most"
              type="number"
              value={draft.bytes}
              onInput={(bytes) => change({ bytes })}
              placeholder="no quota"
            />
          </div>
          <Checkbox
            label="Live mode (some contracts tell receivers)"
            isOn={draft.isLive}
            onChange={(isLive) => change({ isLive })}
          />
          <OutdatedNote by={form} />
          {error && <ErrorMessage error={error} />}
          <div class="buttons end">
            <button type="submit" class="primary" disabled={draft.name.trim() === ""}>
              Save
            </button>
          </div>
        </form>
      </Card>
      <Card title="About">
        <PropertyList
          properties={[
            ["Id", <Copyable text={app.id} />],
            ["Overrides", app.overrides && <code>{JSON.stringify(app.overrides)}</code>],
            ["Metadata", app.metadata && <code>{JSON.stringify(app.metadata)}</code>],
            ["Created", <LongTime at={app.created_at} />],
          ]}
        />
      </Card>
      <Card title="Delete the app">
        <p>
          Everything of it goes: endpoints, events, deliveries, keys. Only that it was deleted, and by whom, stays in the audit
          log.
        </p>
        <div class="buttons end">
          <Action
            label="Delete the app"
            done="Deleted."
            isDangerous
            confirm={<>“{app.name}” and everything in it is deleted for good. This cannot be undone.</>}
            act={async () => {
              await dataOf(api.DELETE("/v1/apps/{app}", { params: { path } }));
              invalidate("apps");
              navigate(paths.apps());
            }}
          />
        </div>
      </Card>
    </div>
  );
}
