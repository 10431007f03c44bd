// States of a query: loading, empty, failed, or its data.
import type { ComponentChildren } from "preact";
import { type ApiError, adviceFor } from "../api/error";

export function Skeleton({ lines = 6 }: { lines?: number }) {
  return (
    <div class="skeleton" role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, at) => (
        <div key={at} class={`skeleton-line w${at % 4}`} />
      ))}
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <strong>{title}</strong>
      {children && <p>{children}</p>}
    </div>
  );
}

export function ErrorMessage({ error, onRetry }: { error: ApiError; onRetry?: (() => void) | undefined }) {
  const advice = adviceFor(error);
  return (
    <div class="error-message" role="alert">
      <p>
        {error.field && <code>{error.field}</code>} {error.text}
      </p>
      {advice && <p class="muted">{advice}</p>}
      {onRetry && (
        <button type="button" class="small" onClick={onRetry}>
          Try again
        </button>
      )}
    </div>
  );
}

/** Renders a query in each of its states. After a failed refetch the old data stays, below the error. A missing response
 *  (status 0) is not shown next to data, because the shell's banner already reports it. */
export function QueryView<T>(props: {
  query: { data: T | undefined; error: ApiError | null; refetch: () => void };
  lines?: number;
  children: (data: T) => ComponentChildren;
}) {
  const { data, error, refetch } = props.query;
  if (data !== undefined) {
    return (
      <>
        {error !== null && error.status !== 0 && <ErrorMessage error={error} onRetry={refetch} />}
        {props.children(data)}
      </>
    );
  }
  if (error !== null) return <ErrorMessage error={error} onRetry={refetch} />;
  return <Skeleton lines={props.lines ?? 6} />;
}
