// Explains an attempt's outcome to support staff, and what to do about it.
import { formatDuration } from "./times";

const STATUS_NAMES: Record<number, string> = {
  200: "OK",
  201: "Created",
  202: "Accepted",
  204: "No Content",
  301: "Moved Permanently",
  302: "Found",
  304: "Not Modified",
  307: "Temporary Redirect",
  308: "Permanent Redirect",
  400: "Bad Request",
  401: "Unauthorized",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  406: "Not Acceptable",
  408: "Request Timeout",
  409: "Conflict",
  410: "Gone",
  413: "Content Too Large",
  415: "Unsupported Media Type",
  422: "Unprocessable Content",
  425: "Too Early",
  429: "Too Many Requests",
  500: "Internal Server Error",
  501: "Not Implemented",
  502: "Bad Gateway",
  503: "Service Unavailable",
  504: "Gateway Timeout",
};

export interface AttemptText {
  what: string;
  advice: string | null;
}

export function statusName(code: number): string {
  const name = STATUS_NAMES[code];
  return name ? `${code} ${name}` : String(code);
}

interface AttemptOutcome {
  class: string;
  success: boolean;
  status_code?: number | null;
  duration_ms: number;
}

export function attemptText(attempt: AttemptOutcome): AttemptText {
  const time = formatDuration(attempt.duration_ms);
  if (attempt.status_code != null && (attempt.class === "ok" || attempt.class === "http")) {
    if (attempt.success) return { what: `The receiver took it: ${statusName(attempt.status_code)}.`, advice: null };
    return statusText(attempt.status_code);
  }
  const known = CLASS_TEXTS[attempt.class];
  if (known === undefined) return { what: `It ended as “${attempt.class}” after ${time}.`, advice: null };
  return { what: known.what.replace("{time}", time), advice: known.advice };
}

function statusText(code: number): AttemptText {
  const what = `The receiver answered ${statusName(code)}.`;
  const advice =
    STATUS_ADVICE[code] ??
    (code >= 500
      ? "Something broke inside the receiver. Its own log around this time says what."
      : code >= 400
        ? "The receiver refused it. What it answered, below, may say why."
        : code >= 300
          ? "Redirects are never followed. Set the endpoint's URL to where it leads."
          : null);
  return { what, advice };
}

const SIGNATURE_ADVICE =
  "The receiver did not believe that this came from us. Most often its secret is not the endpoint's: compare them, or rotate the secret and give it the new one.";

const STATUS_ADVICE: Record<number, string> = {
  400: "The receiver could not make sense of it, or its signature check failed. Inspecting the receiver tells which.",
  401: SIGNATURE_ADVICE,
  403: SIGNATURE_ADVICE,
  404: "Nothing is at this address. Check the URL's path, and whether the receiver is fully deployed.",
  405: "The address does not take POST. Check the URL.",
  408: "The receiver gave up waiting for the request.",
  410: "The receiver says that this address is gone for good. Where the contract says so, this switches the endpoint off.",
  413: "The receiver allows only smaller bodies. Raise its limit.",
  415: "The receiver does not take JSON here.",
  429: "The receiver asks for fewer requests. Lower the endpoint's max_in_flight, or raise the receiver's limit.",
  502: "A proxy in front of the receiver could not reach it.",
  503: "The receiver, or a proxy in front of it, says that it is not ready now.",
  504: "A proxy in front of the receiver waited for it in vain.",
};

const CLASS_TEXTS: Record<string, AttemptText> = {
  timeout: {
    what: "No complete answer came in time; it was given up after {time}.",
    advice: "A receiver should keep the event, answer 2xx at once, and do the work afterwards.",
  },
  dns: {
    what: "The host's name could not be found.",
    advice: "Check the spelling of the host in the URL, and its DNS records.",
  },
  connect: {
    what: "No connection, or it broke before an answer came.",
    advice: "Is the receiver running and reachable from outside, on the port of the URL?",
  },
  tls: {
    what: "No secure connection could be made.",
    advice: "Most often the certificate has expired, lacks its intermediate certificate, or is for another name.",
  },
  stale_connection: {
    what: "A connection that was kept open had been closed by the other side. It was tried again at once; this counts for nothing.",
    advice: null,
  },
  address_refused: {
    what: "The address may not be called: it is private, or reserved. Nothing was sent.",
    advice: "Use a public address. An operator can allow private networks (allow_addresses).",
  },
  local: {
    what: "A fault on our side kept it from being sent. It is tried again and blames nobody.",
    advice: null,
  },
  unknown: {
    what: "The server stopped while this was on its way, so what became of it is not known. It was sent again under the same id.",
    advice: null,
  },
};
