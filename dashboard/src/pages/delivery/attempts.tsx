import type { Attempt } from "../../api/schema";
import { AnswerBadge } from "../../components/badge";
import { now } from "../../components/clock";
import { LocalTime, Time } from "../../components/time";
import { attemptText } from "../../text/attempts";
import { requestHeaders } from "../../text/request";
import { isOverdue } from "../../text/delivery-summary";
import { formatDuration } from "../../text/times";
import type { DeliveryContext } from "./delivery";
import { attemptInputOf, requestInputOf } from "./request-input";
import { Phases } from "./phases";

export function Attempts({ context }: { context: DeliveryContext }) {
  const { delivery } = context;
  return (
    <>
      {delivery.attempts_expired && <p class="muted">Earlier attempts are kept no longer.</p>}
      {delivery.attempts.length === 0 && !delivery.next_attempt_at && <p class="muted">No attempt was made.</p>}
      <ol class="attempts">
        {delivery.attempts.map((attempt, at) => (
          <AttemptItem key={attempt.id} attempt={attempt} context={context} isLast={at === delivery.attempts.length - 1} />
        ))}
        {delivery.next_attempt_at && (
          <li>
            <span class="attempt-marker next" aria-hidden="true">
              {delivery.attempt_count + 1}
            </span>
            <div class="attempt-line">
              <span>
                {isOverdue(delivery.next_attempt_at, now.value) ? "Next attempt, due" : "Next attempt"}{" "}
                <Time at={delivery.next_attempt_at} />
              </span>
              <span class="when">
                <LocalTime at={delivery.next_attempt_at} />
              </span>
            </div>
          </li>
        )}
      </ol>
    </>
  );
}

function AttemptItem({ attempt, context, isLast }: { attempt: Attempt; context: DeliveryContext; isLast: boolean }) {
  const text = attemptText(attempt);
  const tone = attempt.success ? "good" : attempt.number == null ? "" : "bad";
  return (
    <li>
      <span class={`attempt-marker ${tone}`} aria-hidden="true">
        {attempt.number ?? "·"}
      </span>
      <div class="attempt-line">
        <AnswerBadge code={attempt.status_code} kind={attempt.class} success={attempt.success} />
        <span>{text.what}</span>
        <span class="when">
          {formatDuration(attempt.timings.total_ms)}, <LocalTime at={attempt.started_at} />
        </span>
      </div>
      {attempt.note && <p class="about">{attempt.note}</p>}
      {text.advice && isLast && <p class="about">{text.advice}</p>}
      <details>
        <summary>Request, response and times</summary>
        <div class="inside">
          <RequestSection attempt={attempt} context={context} />
          <ResponseSection attempt={attempt} />
          <div>
            <h3>Where the time went</h3>
            <Phases timings={attempt.timings} />
          </div>
        </div>
      </details>
    </li>
  );
}

function RequestSection({ attempt, context }: { attempt: Attempt; context: DeliveryContext }) {
  const url = attempt.url ?? context.endpoint?.url ?? null;
  return (
    <div>
      <h3>Request</h3>
      <p>
        <code>POST {url ?? "(the endpoint was deleted)"}</code>
      </p>
      {context.contract && (
        <>
          <HeaderList headers={requestHeaders(context.contract, requestInputOf(context), attemptInputOf(attempt))} />
          <p class="about">Made again from the contract as it is now. Signatures are not kept.</p>
        </>
      )}
    </div>
  );
}

function ResponseSection({ attempt }: { attempt: Attempt }) {
  const headers = Object.entries(attempt.response_headers ?? {}).map(([name, value]): [string, string] => [name, String(value)]);
  const isNothing = attempt.error == null && attempt.response_body == null && headers.length === 0;
  return (
    <div>
      <h3>Response</h3>
      {attempt.error && <p class="wrong">{attempt.error}</p>}
      {headers.length > 0 && <HeaderList headers={headers} />}
      {attempt.response_body && (
        <pre tabIndex={0} aria-label="Body of the response">
          <code>{attempt.response_body}</code>
        </pre>
      )}
      {isNothing && (
        <p class="about">{attempt.success ? "An empty body. Headers are kept of failed attempts only." : "Nothing came back."}</p>
      )}
    </div>
  );
}

function HeaderList({ headers }: { headers: [string, string][] }) {
  return (
    <dl class="headers">
      {headers.map(([name, value], at) => [<dt key={`${at} name`}>{name}</dt>, <dd key={`${at} value`}>{value}</dd>])}
    </dl>
  );
}
