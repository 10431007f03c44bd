import { api, dataOf } from "../../api/client";
import { invalidate } from "../../api/invalidation";
import { Action } from "../../components/action";
import { CopyButton } from "../../components/copy";
import { paths } from "../../route/paths";
import { navigate } from "../../route/router";
import { mayActForProduct, mayChange } from "../../session/session";
import { curlText } from "../../text/curl";
import { actionsFor } from "../../text/states";
import type { DeliveryContext } from "./delivery";
import { attemptInputOf, requestInputOf } from "./request-input";
import { usePayload } from "./payload";

export function DeliveryButtons({ context, refetch }: { context: DeliveryContext; refetch: () => void }) {
  const { app, delivery, contract, endpoint } = context;
  const payload = usePayload(context);
  const params = { params: { path: { app, delivery: delivery.id } } };
  const actions = actionsFor(delivery.status, delivery.reason ?? null);
  const after = () => {
    invalidate("deliveries");
    refetch();
  };
  const curl =
    contract && endpoint && payload
      ? curlText(contract, requestInputOf(context), payload, attemptInputOf(delivery.attempts.at(-1)), endpoint.url)
      : null;
  return (
    <>
      {mayChange.value && (
        <>
          {actions.retry && (
            <Action
              label="Retry now"
              title="One extra attempt as soon as a hand is free; its place in the schedule stays."
              done="One extra attempt is on its way."
              isPrimary
              act={() => dataOf(api.POST("/v1/apps/{app}/deliveries/{delivery}/retry", params)).then(after)}
            />
          )}
          {actions.replay && (
            <Action
              label="Replay"
              title={
                delivery.status === "delivered" ? "A new delivery of the same event." : "The same delivery with a fresh schedule."
              }
              done="On its way again."
              {...(delivery.status === "delivered"
                ? { confirm: "The receiver took it already. It gets it again, as a new delivery with its own id." }
                : {})}
              act={async () => {
                const replayed = await dataOf(api.POST("/v1/apps/{app}/deliveries/{delivery}/replay", params));
                after();
                if (replayed.id !== delivery.id) navigate(paths.delivery(app, replayed.id));
              }}
            />
          )}
          {actions.close && (
            <Action
              label="Close"
              title="Marks this dead letter as dealt with; it stays on record."
              done="Closed."
              act={() => dataOf(api.POST("/v1/apps/{app}/dead-letters/{delivery}/close", params)).then(after)}
            />
          )}
          {actions.cancel && (
            <Action
              label="Cancel"
              done="Cancelled."
              isDangerous
              confirm="No further attempt is made. It can still be retried or replayed later."
              act={() => dataOf(api.POST("/v1/apps/{app}/deliveries/{delivery}/cancel", params)).then(after)}
            />
          )}
        </>
      )}
      {curl && (
        <CopyButton
          text={curl}
          label="Copy as curl"
          title="A shell command that sends this again by itself, freshly signed with the secret in WEBHOOK_SECRET."
        />
      )}
      <CopyButton text={() => window.location.origin + window.location.pathname} label="Copy the link" />
      {mayActForProduct.value && actions.delete && (
        <Action
          label="Delete"
          done="Deleted."
          isSmall
          isDangerous
          confirm="The delivery and its attempts are deleted from the record for good."
          act={async () => {
            await dataOf(api.DELETE("/v1/apps/{app}/deliveries/{delivery}", params));
            invalidate("deliveries");
            navigate(paths.deliveries(app));
          }}
        />
      )}
    </>
  );
}
