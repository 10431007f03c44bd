// Finds the page of any id. The server says what the id belongs to.
import { api, dataOf } from "../api/client";
import { pathOfResult } from "../route/search-result";
import { session } from "../session/session";

/** Returns the path of the id's page, or null if the key sees nothing with this id. */
export async function findById(id: string, app: string | null): Promise<string | null> {
  const { data } = await dataOf(api.GET("/v1/find/{id}", { params: { path: { id } } }));
  return pathOfResult(data, app ?? session.value?.app?.id ?? null);
}
