// The only door to the server: the generated client, with the key in a header and every failure as a `Refusal`.
import createClient from "openapi-fetch";
import { connectionIsLost, connectionIsUp } from "./connection";
import { NO_ANSWER, ifThere, refusalOf } from "./problem";
import type { paths } from "./schema.gen";

let key: string | null = null;
let onUnauthorized: (detail: string) => void = () => undefined;

/** The key lives in this variable and nowhere else: no storage, no cookie, no address. */
export function holdKey(given: string | null): void {
  key = given;
}

export function whenUnauthorized(tell: (detail: string) => void): void {
  onUnauthorized = tell;
}

/** A request with the key. Throws `NO_ANSWER` when none comes. */
export async function talk(request: Request): Promise<Response> {
  if (key !== null) request.headers.set("authorization", `Bearer ${key}`);
  const askedWith = key;
  let response: Response;
  try {
    response = await fetch(request);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    connectionIsLost();
    throw NO_ANSWER;
  }
  // A gateway that cannot reach the server is no answer of the server's.
  if (response.status === 502 || response.status === 504) connectionIsLost();
  else connectionIsUp();
  if (response.status === 401 && key !== null && askedWith === key) {
    const refusal = refusalOf(
      401,
      await response
        .clone()
        .json()
        .catch(() => null),
    );
    onUnauthorized(refusal.message);
  }
  return response;
}

/** A view asks one question at a time: one that is never answered must not be the last. Actions may take their time. */
const READ_WITHIN_MS = 30_000;

function talkInTime(request: Request): Promise<Response> {
  if (request.method !== "GET") return talk(request);
  return talk(new Request(request, { signal: AbortSignal.timeout(READ_WITHIN_MS) }));
}

export const api = createClient<paths>({ baseUrl: window.location.origin, fetch: talkInTime });

type Asked<T> = { data?: T; error?: unknown; response: Response };

/** What was asked for, or a `Refusal`. */
export async function ask<T>(asked: Promise<Asked<T>>): Promise<T> {
  const { data, error, response } = await asked;
  if (!response.ok) throw refusalOf(response.status, error);
  return data as T;
}

/** What was asked for, or null where there is no such thing. */
export function askIfThere<T>(asked: Promise<Asked<T>>): Promise<T | null> {
  return ifThere(ask(asked));
}
