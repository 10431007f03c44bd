// How much of an endpoint's traffic succeeded, out of the statistics of its app.

/** Statistics list the endpoints that fail most, and at most so many. */
export const LISTED_ENDPOINTS_MAX = 50;

interface ListedEndpoint {
  endpoint_id: string;
  attempts: number;
}

/** Of an endpoint that is not listed nothing is known, which is not the same as that nothing was sent. */
export function successRateOf<E extends ListedEndpoint>(listed: readonly E[], id: string): E | "nothing sent" | "not listed" {
  const found = listed.find((each) => each.endpoint_id === id);
  if (found !== undefined) return found.attempts > 0 ? found : "nothing sent";
  return listed.length < LISTED_ENDPOINTS_MAX ? "nothing sent" : "not listed";
}
