import { useState } from "preact/hooks";
import { api, ask } from "../api/client";
import { hint } from "../api/hints";
import { type Refusal, asRefusal } from "../api/problem";
import type { App } from "../api/schema";
import { Action } from "../parts/action";
import { Shown, Trouble } from "../parts/feedback";
import { Check, Field } from "../parts/field";
import { Card, Head } from "../parts/page";
import { say } from "../parts/toast";
import { paths } from "../route/paths";
import { go } from "../route/router";
import { ContractChoice } from "./apps";
import { useApp } from "./ask-app";

export function AppSettings({ app }: { app: string }) {
  const asked = useApp(app);
  return (
    <>
      <Head title="Settings" trail={[{ label: asked.data?.name ?? app, href: paths.app(app) }]} />
      <Shown asked={asked}>{(data) => <Settings key={data.updated_at} app={data} />}</Shown>
    </>
  );
}

function Settings({ app }: { app: App }) {
  const [name, setName] = useState(app.name);
  const [email, setEmail] = useState(app.contact_email ?? "");
  const [contract, setContract] = useState(app.contract ?? "");
  const [isLive, setLive] = useState(app.livemode);
  const [events, setEvents] = useState(app.quota?.events_per_second?.toString() ?? "");
  const [bytes, setBytes] = useState(app.quota?.bytes_per_second?.toString() ?? "");
  const [refusal, setRefusal] = useState<Refusal | null>(null);
  const path = { app: app.id };
  const problem = (field: string) => (refusal?.field?.startsWith(field) ? refusal.text : null);

  const save = async (event: Event) => {
    event.preventDefault();
    setRefusal(null);
    const quota = {
      ...(events ? { events_per_second: Number(events) } : {}),
      ...(bytes ? { bytes_per_second: Number(bytes) } : {}),
    };
    const body = {
      name: name.trim(),
      contact_email: email.trim() || null,
      contract: contract || null,
      livemode: isLive,
      quota: Object.keys(quota).length > 0 ? quota : null,
    };
    try {
      await ask(api.PATCH("/v1/apps/{app}", { params: { path }, body }));
      hint("apps");
      say("Saved.");
    } catch (error) {
      setRefusal(asRefusal(error));
    }
  };

  return (
    <div class="stack">
      <Card title="The app">
        <form class="form" onSubmit={(event) => void save(event)}>
          <Field label="Name" value={name} onInput={setName} isRequired problem={problem("name")} />
          <Field
            label="Contact e-mail"
            type="email"
            value={email}
            onInput={setEmail}
            problem={problem("contact_email")}
            hint="Who hears of endpoints in trouble."
          />
          <ContractChoice value={contract} onChange={setContract} />
          <div class="pair">
            <Field
              label="Events a second, at most"
              type="number"
              value={events}
              onInput={setEvents}
              placeholder="no quota"
              problem={problem("quota")}
            />
            <Field label="Bytes a second, at most" type="number" value={bytes} onInput={setBytes} placeholder="no quota" />
          </div>
          <Check label="Live mode (some contracts tell receivers)" isOn={isLive} onChange={setLive} />
          {refusal && <Trouble refusal={refusal} />}
          <div class="buttons end">
            <button type="submit" class="primary" disabled={name.trim() === ""}>
              Save
            </button>
          </div>
        </form>
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
              await ask(api.DELETE("/v1/apps/{app}", { params: { path } }));
              hint("apps");
              go(paths.apps());
            }}
          />
        </div>
      </Card>
    </div>
  );
}
