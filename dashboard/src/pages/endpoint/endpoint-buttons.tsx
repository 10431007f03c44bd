import { useState } from "preact/hooks";
import { api, dataOf } from "../../api/client";
import { invalidate } from "../../api/invalidation";
import type { Endpoint } from "../../api/schema";
import { Action } from "../../components/action";
import { Dialog } from "../../components/dialog";
import { Checkbox } from "../../components/field";
import { showToast } from "../../components/toast";
import { paths } from "../../route/paths";
import { navigate } from "../../route/router";

interface Props {
  app: string;
  endpoint: Endpoint;
}

export function EndpointButtons({ app, endpoint }: Props) {
  const params = { params: { path: { app, endpoint: endpoint.id } } };
  return (
    <>
      <Action
        label="Send a test event"
        title="An event of type webhook.test, whatever it subscribes to, even if it is off."
        done="The test is on its way."
        act={async () => {
          const delivery = await dataOf(api.POST("/v1/apps/{app}/endpoints/{endpoint}/test", params));
          invalidate("events", "deliveries");
          navigate(paths.delivery(app, delivery.id));
        }}
      />
      {endpoint.status === "disabled" ? (
        <EnableButton app={app} endpoint={endpoint} />
      ) : (
        <Action
          label="Switch off"
          done="Switched off."
          isDangerous
          confirm="Nothing is sent to it until it is switched on again. What waits, and what is published meanwhile, is held or left out, as its contract says."
          act={async () => {
            await dataOf(api.POST("/v1/apps/{app}/endpoints/{endpoint}/disable", params));
            invalidate("endpoints", "deliveries");
          }}
        />
      )}
    </>
  );
}

function EnableButton({ app, endpoint }: Props) {
  const [isOpen, setOpen] = useState(false);
  const [isReplaying, setReplaying] = useState(false);
  const enable = async () => {
    const path = { app, endpoint: endpoint.id };
    const enabled = await dataOf(
      api.POST("/v1/apps/{app}/endpoints/{endpoint}/enable", {
        params: { path },
        ...(isReplaying ? { body: { replay: true } } : {}),
      }),
    );
    invalidate("endpoints", "deliveries", "replays");
    setOpen(false);
    showToast("Switched on.");
    const replay = enabled.replays?.[0];
    if (replay) navigate(paths.replay(app, replay.id));
  };
  return (
    <>
      <button type="button" class="primary" onClick={() => setOpen(true)}>
        Switch on
      </button>
      {isOpen && (
        <Dialog title="Switch on" action="Switch on" onAct={enable} onClose={() => setOpen(false)}>
          <p>Deliveries that were held go out now, paced.</p>
          <div class="form">
            <Checkbox label="Also replay what was missed while it was off" isOn={isReplaying} onChange={setReplaying} />
          </div>
        </Dialog>
      )}
    </>
  );
}
