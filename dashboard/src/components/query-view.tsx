// What a page shows instead of things: that they are on their way, that there are none, or why they cannot be had.
import type { ComponentChildren } from "preact";
import { type Refusal, whatToDo } from "../api/problem";

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

export function ErrorMessage({ refusal, again }: { refusal: Refusal; again?: (() => void) | undefined }) {
  const advice = whatToDo(refusal);
  return (
    <div class="error-message" role="alert">
      <p>
        {refusal.field && <code>{refusal.field}</code>} {refusal.text}
      </p>
      {advice && <p class="muted">{advice}</p>}
      {again && (
        <button type="button" class="small" onClick={again}>
          Try again
        </button>
      )}
    </div>
  );
}

/** The states of something that was asked for, in one place. What was had before stays, under why it could not be had anew;
 *  that nothing answers at all is said above the page. */
export function QueryView<T>(props: {
  asked: { data: T | undefined; refusal: Refusal | null; again: () => void };
  lines?: number;
  children: (data: T) => ComponentChildren;
}) {
  const { data, refusal, again } = props.asked;
  if (data !== undefined) {
    return (
      <>
        {refusal !== null && refusal.status !== 0 && <ErrorMessage refusal={refusal} again={again} />}
        {props.children(data)}
      </>
    );
  }
  if (refusal !== null) return <ErrorMessage refusal={refusal} again={again} />;
  return <Skeleton lines={props.lines ?? 6} />;
}
