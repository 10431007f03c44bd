// An endpoint's health over time: groups counts and state changes into buckets, each with a state and a text.
import type { AuditEntry, Endpoint, EndpointHealth, Notice, Stats } from "../api/schema";
import { countOf, formatPercent } from "./numbers";
import type { Tone } from "./states";

export type BucketState = "good" | "some" | "most" | "off" | "none";

/** How each bucket state is shown. `cuts` make the states distinguishable without colours. */
export const BUCKET_STATES: Record<BucketState, { label: string; tone: Tone; cuts: number }> = {
  good: { label: "99 % or more succeeded", tone: "good", cuts: 0 },
  some: { label: "some failed", tone: "warn", cuts: 1 },
  most: { label: "over half failed", tone: "bad", cuts: 2 },
  off: { label: "switched off", tone: "held", cuts: 0 },
  none: { label: "nothing was sent", tone: "quiet", cuts: 0 },
};

export type StateChangeKind = "degraded" | "failing" | "warned" | "off" | "on" | "recovered";

export const STATE_CHANGE_KINDS: Record<StateChangeKind, { label: string; tone: Tone }> = {
  degraded: { label: "Degraded", tone: "warn" },
  failing: { label: "Failing", tone: "bad" },
  warned: { label: "About to be switched off", tone: "warn" },
  off: { label: "Switched off", tone: "held" },
  on: { label: "Switched on", tone: "busy" },
  recovered: { label: "Recovered", tone: "good" },
};

/** A change of an endpoint's health state. */
export interface StateChange {
  atMs: number;
  kind: StateChangeKind;
  text: string;
}

export interface Bucket {
  fromMs: number;
  toMs: number;
  attempts: number;
  failed: number;
  state: BucketState;
  changes: StateChange[];
}

const NOTICE_CHANGES: Record<string, StateChangeKind> = {
  "endpoint.degraded": "degraded",
  "endpoint.warning": "warned",
  "endpoint.disabled": "off",
  "endpoint.recovered": "recovered",
};

const STATE_CHANGES: Record<string, StateChangeKind> = {
  degraded: "degraded",
  failing: "failing",
  disabled: "off",
  healthy: "recovered",
};

/** Sources of an endpoint's state changes. Enabling creates no notice, so it is read from the audit log, if the key may. */
export interface HealthHistory {
  notices: Notice[];
  enabledEntries: AuditEntry[];
  health: Pick<EndpointHealth, "state" | "since"> | null;
  endpoint: Pick<Endpoint, "id" | "disabled_at">;
}

/** Returns the changes of an endpoint's state, oldest first. */
export function stateChangesOf({ notices, enabledEntries, health, endpoint }: HealthHistory): StateChange[] {
  const changes: StateChange[] = [];
  for (const notice of notices) {
    const kind = notice.kind === "endpoint.degraded" && notice.reason === "failing" ? "failing" : NOTICE_CHANGES[notice.kind];
    if (kind !== undefined) changes.push({ atMs: Date.parse(notice.at), kind, text: notice.text });
  }
  for (const entry of enabledEntries) {
    if (entry.thing === endpoint.id) changes.push({ atMs: Date.parse(entry.at), kind: "on", text: "" });
  }
  changes.sort((one, other) => one.atMs - other.atMs);
  const unreported = health && unreportedChange(changes, health, endpoint.disabled_at ?? null);
  return unreported ? [...changes, unreported] : changes;
}

/** Returns the change to the current state, if no notice or audit entry reports it. */
function unreportedChange(
  changes: StateChange[],
  health: Pick<EndpointHealth, "state" | "since">,
  disabledAt: string | null,
): StateChange | null {
  const last = changes.filter((each) => each.kind !== "warned").at(-1);
  const kind = STATE_CHANGES[health.state];
  if (kind === undefined || last?.kind === kind) return null;
  if (kind === "recovered" && (last === undefined || last.kind === "on")) return null;
  const atMs = Date.parse((kind === "off" ? disabledAt : null) ?? health.since);
  // A state that began before the last reported change is no change after it.
  if (last !== undefined && atMs <= last.atMs) return null;
  return { atMs, kind: kind === "recovered" && last?.kind === "off" ? "on" : kind, text: "" };
}

interface BucketsInput {
  stats: Pick<Stats, "series" | "step_seconds">;
  changes: StateChange[];
  isDisabledNow: boolean;
  /** Number of buckets that fit the drawing. */
  bucketsMax: number;
}

/** Groups the steps into buckets. Bucket borders are fixed times that do not move with the window. */
export function bucketsOf({ stats, changes, isDisabledNow, bucketsMax }: BucketsInput): Bucket[] {
  const stepMs = stats.step_seconds * 1000;
  const widthMs = stepMs * Math.max(1, Math.ceil(stats.series.length / bucketsMax));
  const buckets: Bucket[] = [];
  for (const point of stats.series) {
    const atMs = Date.parse(point.at);
    let bucket = buckets.at(-1);
    if (bucket === undefined || Math.floor(atMs / widthMs) !== Math.floor(bucket.fromMs / widthMs)) {
      bucket = { fromMs: atMs, toMs: atMs, attempts: 0, failed: 0, state: "none", changes: [] };
      buckets.push(bucket);
    }
    bucket.toMs = atMs + stepMs;
    bucket.attempts += point.attempts;
    bucket.failed += point.failed;
  }
  for (const bucket of buckets) {
    bucket.changes = changes.filter((each) => each.atMs >= bucket.fromMs && each.atMs < bucket.toMs);
    bucket.state = bucketStateOf(bucket, wasDisabled(changes, bucket.toMs - 1, isDisabledNow));
  }
  return buckets;
}

/** Returns a bucket's state. Attempts outweigh `isDisabled`, because tests are sent even to a disabled endpoint. */
export function bucketStateOf({ attempts, failed }: { attempts: number; failed: number }, isDisabled: boolean): BucketState {
  if (attempts === 0) return isDisabled ? "off" : "none";
  if (failed * 2 > attempts) return "most";
  return failed * 100 > attempts ? "some" : "good";
}

/** Whether the endpoint was disabled at an instant. False if it is enabled now and no change says since when. */
function wasDisabled(changes: StateChange[], atMs: number, isDisabledNow: boolean): boolean {
  const kinds = changes.filter((each) => each.kind !== "warned");
  const last = kinds.findLastIndex((each) => each.atMs <= atMs);
  return kinds[last]?.kind === "off" && (last < kinds.length - 1 || isDisabledNow);
}

const DAY_AND_TIME_FORMAT = new Intl.DateTimeFormat(undefined, {
  weekday: "short",
  day: "numeric",
  month: "short",
  hour: "2-digit",
  minute: "2-digit",
});
const TIME_FORMAT = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });

/** Describes a bucket, for screen readers and for the line below the strip. */
export function bucketText(bucket: Bucket): string {
  const when = `${DAY_AND_TIME_FORMAT.format(bucket.fromMs)} to ${TIME_FORMAT.format(bucket.toMs)}`;
  const succeeded = formatPercent(bucket.attempts === 0 ? null : (bucket.attempts - bucket.failed) / bucket.attempts);
  const what =
    bucket.attempts === 0
      ? BUCKET_STATES[bucket.state].label
      : `${countOf(bucket.attempts, "attempt")}, ${bucket.failed} failed, ${succeeded} succeeded`;
  const kinds = bucket.changes.map((each) => `${STATE_CHANGE_KINDS[each.kind].label} at ${TIME_FORMAT.format(each.atMs)}.`);
  return [`${when}: ${what}.`, ...kinds].join(" ");
}

/** Describes the whole strip in one sentence. */
export function stripText(buckets: Bucket[]): string {
  const inState = (state: BucketState) => buckets.filter((each) => each.state === state).length;
  const states = (Object.keys(BUCKET_STATES) as BucketState[]).filter((state) => inState(state) > 0);
  const spans = states.map((state) => `${BUCKET_STATES[state].label} in ${inState(state)}`);
  return `Health over time, in ${countOf(buckets.length, "span")}: ${spans.join(", ")}`;
}
