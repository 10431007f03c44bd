// The API client, the only way to the server. Sends the key in a header and throws every failure as an `ApiError`.
import createClient from "openapi-fetch";
import { markDisconnected, markConnected } from "./connection";
import { NO_ANSWER, nullIfNotFound, errorOfResponse } from "./error";
import type { paths } from "./schema.gen";

let apiKey: string | null = null;
let notifyUnauthorized: (detail: string) => void = () => undefined;

/** Sets the key of all requests. It is kept in memory only: no storage, no cookie, no address. */
export function setApiKey(key: string | null): void {
  apiKey = key;
}

export function onUnauthorized(listener: (detail: string) => void): void {
  notifyUnauthorized = listener;
}

/** Sends a request with the key. Throws `NO_ANSWER` if no response comes. */
export async function sendRequest(request: Request): Promise<Response> {
  if (apiKey !== null) request.headers.set("authorization", `Bearer ${apiKey}`);
  const sentKey = apiKey;
  let response: Response;
  try {
    response = await fetch(request);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    markDisconnected();
    throw NO_ANSWER;
  }
  // 502 and 504 come from a gateway that cannot reach the server.
  if (response.status === 502 || response.status === 504) markDisconnected();
  else markConnected();
  if (response.status === 401 && apiKey !== null && sentKey === apiKey) {
    const error = errorOfResponse(
      401,
      await response
        .clone()
        .json()
        .catch(() => null),
    );
    notifyUnauthorized(error.message);
  }
  return response;
}

/** Limit for GET only: a view sends one query at a time, so a query without a response would block it. Actions have no limit. */
const READ_TIMEOUT_MS = 30_000;

function sendWithTimeout(request: Request): Promise<Response> {
  if (request.method !== "GET") return sendRequest(request);
  return sendRequest(new Request(request, { signal: AbortSignal.timeout(READ_TIMEOUT_MS) }));
}

export const api = createClient<paths>({ baseUrl: window.location.origin, fetch: sendWithTimeout });

type ApiResult<T> = { data?: T; error?: unknown; response: Response };

/** Returns the data of a response. Throws an `ApiError` for any status other than 2xx. */
export async function dataOf<T>(result: Promise<ApiResult<T>>): Promise<T> {
  const { data, error, response } = await result;
  if (!response.ok) throw errorOfResponse(response.status, error);
  return data as T;
}

/** Returns the data of a response, or null after 404. */
export function dataOrNull<T>(result: Promise<ApiResult<T>>): Promise<T | null> {
  return nullIfNotFound(dataOf(result));
}
