// Errors of API requests, as texts for users: the API's own problem, or that no response came.
import type { ProblemView } from "./schema";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    readonly field: string | null = null,
    readonly retryAfterSeconds: number | null = null,
  ) {
    super(detail);
  }

  /** The message without the field's name in front, for places that show the field. */
  get text(): string {
    return this.field !== null && this.message.startsWith(`${this.field}: `)
      ? this.message.slice(this.field.length + 2)
      : this.message;
  }

  get isNotFound(): boolean {
    return this.status === 404;
  }

  /** Whether the error may pass without a change of the resource. Data shown before may stay on the page. */
  get isTransient(): boolean {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

/** Status 0: no response came. */
export const NO_ANSWER = new ApiError(0, "no_answer", "The server did not answer. Trying again on its own.");

/** Builds the error of a response other than 2xx. The body may be anything, as a proxy may have sent it. */
export function errorOfResponse(status: number, body: unknown): ApiError {
  if (isProblem(body)) {
    return new ApiError(status, body.code, body.detail, body.field ?? null, body.retry_after ?? null);
  }
  return new ApiError(status, "unexpected", `The server answered ${status} without saying why. Its log may say more.`);
}

function isProblem(body: unknown): body is ProblemView {
  return typeof body === "object" && body !== null && "code" in body && "detail" in body;
}

/** Returns what the user can do about an error, or null. */
export function adviceFor(error: ApiError): string | null {
  if (error.status === 0) return "Check that the server runs and that this machine reaches it.";
  if (error.status === 401) return "Sign in again with a key that is valid.";
  if (error.status === 403) return "Ask for a key with a wider scope.";
  if (error.status === 404) return "It may have been deleted, or kept no longer, or belong to another app.";
  if (error.status === 409) return "It changed in the meantime: look at it again, then decide.";
  if (error.status === 429) {
    const seconds = error.retryAfterSeconds;
    return seconds ? `Try again in ${seconds} s.` : "Try again in a moment.";
  }
  if (error.status === 507) return "Make room on the store's disk, or raise store_bytes_max.";
  if (error.status >= 500) return "Try again; if it stays so, look into the server's log.";
  return null;
}

export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  return new ApiError(0, "fault", error instanceof Error ? error.message : String(error));
}

/** Turns a 404 into null. Other errors are thrown again. */
export async function nullIfNotFound<T>(response: Promise<T>): Promise<T | null> {
  return response.catch((error: unknown) => {
    if (toApiError(error).isNotFound) return null;
    throw error;
  });
}
