// Formats instants and durations. `now` is always an argument.

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const TIME_UNITS: [number, string][] = [
  [DAY, "d"],
  [HOUR, "h"],
  [MINUTE, "m"],
  [SECOND, "s"],
];

/** Formats a relative time in one unit, rounded down: `3 m ago`, `in 2 h`, `now`. */
export function formatRelative(at: number, now: number): string {
  const distanceMs = Math.abs(at - now);
  if (distanceMs < SECOND) return "now";
  const [size, name] = TIME_UNITS.find(([unit]) => distanceMs >= unit) ?? [SECOND, "s"];
  const text = `${Math.floor(distanceMs / size)} ${name}`;
  return at > now ? `in ${text}` : `${text} ago`;
}

/** Formats a measured duration in one unit; from a minute on, as contracts write it. */
export function formatDuration(ms: number): string {
  if (ms < 1) return `${Math.round(ms * 1000)} µs`;
  if (ms < 10) return `${trim(ms.toFixed(1))} ms`;
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  if (ms < MINUTE) return `${trim((ms / SECOND).toFixed(1))} s`;
  return contractDuration(ms);
}

function trim(text: string): string {
  return text.replace(/\.0$/, "");
}

/** Formats a duration as contracts write it: `2h4m4s`, largest unit first. */
export function contractDuration(ms: number): string {
  if (ms < SECOND) return ms === 0 ? "0" : `${Math.round(ms)}ms`;
  let rest = Math.round(ms / SECOND) * SECOND;
  const parts: string[] = [];
  // Hours are not grouped into days, as is usual for retries: T+44h36m.
  for (const [size, name] of TIME_UNITS.slice(1)) {
    const count = Math.floor(rest / size);
    if (count > 0) parts.push(`${count}${name}`);
    rest -= count * size;
  }
  return parts.join("");
}

const DURATION_PATTERN = /^(\d+)(ms|s|m|h|d)$/;
const DURATION_UNITS_MS: Record<string, number> = { ms: 1, s: SECOND, m: MINUTE, h: HOUR, d: DAY };

/** Parses a duration of the API, for example `5m`, to milliseconds. Null if it is none. */
export function durationMs(text: string): number | null {
  const match = DURATION_PATTERN.exec(text);
  return match ? Number(match[1]) * (DURATION_UNITS_MS[match[2] ?? ""] ?? 0) : null;
}

const LOCAL_FORMAT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

export function formatLocal(at: string): string {
  return LOCAL_FORMAT.format(new Date(at));
}

/** Formats an instant in UTC: `2026-11-16 06:02:38 UTC`. Milliseconds appear unless they are zero. */
export function formatUtc(at: string): string {
  return new Date(at)
    .toISOString()
    .replace("T", " ")
    .replace(/(\.000)?Z$/, " UTC");
}

/** Converts an instant to the value of a `datetime-local` field. */
export function toDateTimeField(at: string): string {
  const date = new Date(at);
  const shifted = new Date(date.getTime() - date.getTimezoneOffset() * MINUTE);
  return shifted.toISOString().slice(0, 16);
}

/** Converts the value of a `datetime-local` field to an instant in UTC. Null if it is empty or invalid. */
export function fromDateTimeField(value: string): string | null {
  const date = new Date(value);
  return value === "" || Number.isNaN(date.getTime()) ? null : date.toISOString();
}
