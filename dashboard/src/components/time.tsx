import { formatLocal, formatRelative, formatDuration, formatUtc } from "../text/times";
import { now } from "./clock";

/** A relative time, with local time and UTC on hover. */
export function Time({ at }: { at: string | null | undefined }) {
  if (!at) return <span class="muted">–</span>;
  return (
    <time dateTime={at} title={`${formatLocal(at)}\n${formatUtc(at)}`}>
      {formatRelative(Date.parse(at), now.value)}
    </time>
  );
}

/** A local time followed by the relative one, with UTC on hover. */
export function LongTime({ at }: { at: string | null | undefined }) {
  if (!at) return <span class="muted">–</span>;
  return (
    <span>
      <time dateTime={at} title={formatUtc(at)}>
        {formatLocal(at)}
      </time>{" "}
      <span class="muted nowrap">({formatRelative(Date.parse(at), now.value)})</span>
    </span>
  );
}

/** A local time, with UTC on hover. */
export function LocalTime({ at }: { at: string }) {
  return (
    <time dateTime={at} title={formatUtc(at)}>
      {formatLocal(at)}
    </time>
  );
}

export function Duration({ ms }: { ms: number }) {
  return <span class="number">{formatDuration(ms)}</span>;
}
