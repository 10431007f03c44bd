// Looks up an endpoint's success rate in the statistics of its app.

/** The API's statistics list at most this many endpoints, those that fail most. */
export const LISTED_ENDPOINTS_MAX = 50;

interface ListedEndpoint {
  endpoint_id: string;
  attempts: number;
}

/** Returns an endpoint's statistics. If the list is full, a missing endpoint may have sent something, so its rate is unknown. */
export function successRateOf<E extends ListedEndpoint>(listed: readonly E[], id: string): E | "nothing sent" | "not listed" {
  const found = listed.find((each) => each.endpoint_id === id);
  if (found !== undefined) return found.attempts > 0 ? found : "nothing sent";
  return listed.length < LISTED_ENDPOINTS_MAX ? "nothing sent" : "not listed";
}
