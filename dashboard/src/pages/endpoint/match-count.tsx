import { useQuery } from "../../api/query";
import { api, dataOf } from "../../api/client";
import { formatCount } from "../../text/numbers";
import { matchesSubscription } from "../../text/subscriptions";

/** Counts how many of the latest events a subscription would have matched, while it is typed. */
export function MatchCount({ app, patterns }: { app: string; patterns: string[] }) {
  const query = useQuery(
    `latest events ${app}`,
    () => dataOf(api.GET("/v1/apps/{app}/events", { params: { path: { app }, query: { limit: 250 } } })),
    ["events"],
  );
  const types = query.data?.data.map((each) => each.type).filter((type) => !type.startsWith("webhook."));
  if (types === undefined || types.length === 0) return null;
  const matching = types.filter((type) => matchesSubscription(patterns, type)).length;
  return (
    <strong role="status">
      {formatCount(matching)} of the latest {formatCount(types.length)} events would have matched.
    </strong>
  );
}
