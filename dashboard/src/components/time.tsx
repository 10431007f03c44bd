import { local, relative, took, utc } from "../text/times";
import { now } from "./clock";

/** Relative, with the local time and UTC on hover. */
export function Time({ at }: { at: string | null | undefined }) {
  if (!at) return <span class="muted">–</span>;
  return (
    <time dateTime={at} title={`${local(at)}\n${utc(at)}`}>
      {relative(Date.parse(at), now.value)}
    </time>
  );
}

/** The local time, with UTC on hover and how long ago beside it. */
export function LongTime({ at }: { at: string | null | undefined }) {
  if (!at) return <span class="muted">–</span>;
  return (
    <span>
      <time dateTime={at} title={utc(at)}>
        {local(at)}
      </time>{" "}
      <span class="muted nowrap">({relative(Date.parse(at), now.value)})</span>
    </span>
  );
}

/** The local time alone, with UTC on hover. */
export function At({ at }: { at: string }) {
  return (
    <time dateTime={at} title={utc(at)}>
      {local(at)}
    </time>
  );
}

export function Took({ ms }: { ms: number }) {
  return <span class="number">{took(ms)}</span>;
}
