// What a page shows instead of things: that they are on their way, that there are none, or why they cannot be had.
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

/** The states of something that was asked for, in one place. What was had before stays, under why it could not be had anew;
 *  that nothing answers at all is said above the page. */
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
