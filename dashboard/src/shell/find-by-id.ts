// Any id leads to its page: the server says what it may be.
import { api, dataOf } from "../api/client";
import { pathOfResult } from "../route/search-result";
import { session } from "../session/session";

/** Where it is, or null if it is nowhere that this key can see. */
export async function findById(id: string, app: string | null): Promise<string | null> {
  const { data } = await dataOf(api.GET("/v1/find/{id}", { params: { path: { id } } }));
  return pathOfResult(data, app ?? session.value?.app?.id ?? null);
}
