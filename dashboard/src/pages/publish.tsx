import { useState } from "preact/hooks";
import { api, dataOf } from "../api/client";
import { invalidate } from "../api/invalidation";
import { Dialog } from "../components/dialog";
import { Field } from "../components/field";
import { showToast } from "../components/toast";
import { paths } from "../route/paths";
import { navigate } from "../route/router";

export function PublishButton({ app }: { app: string }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <button type="button" class="primary" onClick={() => setOpen(true)}>
        Publish an event
      </button>
      {isOpen && <PublishDialog app={app} onClose={() => setOpen(false)} />}
    </>
  );
}

function PublishDialog({ app, onClose }: { app: string; onClose: () => void }) {
  const [type, setType] = useState("");
  const [data, setData] = useState('{\n  "order": 1001\n}');
  const problem = jsonProblem(data);
  const publish = async () => {
    // The body is text, so that numbers reach receivers as typed.
    const body = `{"type":${JSON.stringify(type.trim())},"data":${data}}`;
    const published = await dataOf(
      api.POST("/v1/apps/{app}/events", {
        params: { path: { app } },
        body: body as never,
        bodySerializer: (text) => text as unknown as string,
        headers: { "content-type": "application/json" },
      }),
    );
    invalidate("events", "deliveries");
    showToast("Published.");
    navigate(paths.event(app, published.id));
  };
  return (
    <Dialog
      title="Publish an event"
      action="Publish"
      isReady={type.trim() !== "" && problem === null}
      onAct={publish}
      onClose={onClose}
    >
      <p class="muted">It goes to every endpoint of this app that subscribes to its type, as if your product had published it.</p>
      <div class="form">
        <Field label="Type" value={type} onInput={setType} placeholder="order.paid" isRequired isCode />
        <Field
          label="Data"
          value={data}
          onInput={setData}
          rows={9}
          isCode
          problem={problem}
          hint="Any JSON. Receivers get it byte for byte."
        />
      </div>
    </Dialog>
  );
}

export function jsonProblem(text: string): string | null {
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    return error instanceof Error ? `Not JSON: ${error.message}` : "Not JSON.";
  }
}
