// The only door to the server: the generated client, with the key in a header and every failure as a `Refusal`.
import createClient from "openapi-fetch";
import { markDisconnected, markConnected } from "./connection";
import { NO_ANSWER, nullIfNotFound, errorOfResponse } from "./error";
import type { paths } from "./schema.gen";

let apiKey: string | null = null;
let notifyUnauthorized: (detail: string) => void = () => undefined;

/** The key lives in this variable and nowhere else: no storage, no cookie, no address. */
export function setApiKey(key: string | null): void {
  apiKey = key;
}

export function onUnauthorized(listener: (detail: string) => void): void {
  notifyUnauthorized = listener;
}

/** A request with the key. Throws `NO_ANSWER` when none comes. */
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
  // A gateway that cannot reach the server is no answer of the server's.
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

/** A view asks one question at a time: one that is never answered must not be the last. Actions may take their time. */
const READ_TIMEOUT_MS = 30_000;

function sendWithTimeout(request: Request): Promise<Response> {
  if (request.method !== "GET") return sendRequest(request);
  return sendRequest(new Request(request, { signal: AbortSignal.timeout(READ_TIMEOUT_MS) }));
}

export const api = createClient<paths>({ baseUrl: window.location.origin, fetch: sendWithTimeout });

type ApiResult<T> = { data?: T; error?: unknown; response: Response };

/** What was asked for, or a `Refusal`. */
export async function dataOf<T>(result: Promise<ApiResult<T>>): Promise<T> {
  const { data, error, response } = await result;
  if (!response.ok) throw errorOfResponse(response.status, error);
  return data as T;
}

/** What was asked for, or null where there is no such thing. */
export function dataOrNull<T>(result: Promise<ApiResult<T>>): Promise<T | null> {
  return nullIfNotFound(dataOf(result));
}
