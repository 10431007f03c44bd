// How an endpoint has been doing: counts and changes of its state become buckets of a strip, each with a state and words.
import type { AuditEntry, Endpoint, EndpointHealth, Notice, Stats } from "../api/schema";
import { counted, share } from "./numbers";
import type { Tone } from "./states";

export type BucketState = "good" | "some" | "most" | "off" | "none";

/** What a bucket says at a glance. `cuts` tell the states apart for whoever does not see the colours. */
export const BUCKET_STATES: Record<BucketState, { label: string; tone: Tone; cuts: number }> = {
  good: { label: "99 % or more succeeded", tone: "good", cuts: 0 },
  some: { label: "some failed", tone: "warn", cuts: 1 },
  most: { label: "over half failed", tone: "bad", cuts: 2 },
  off: { label: "switched off", tone: "held", cuts: 0 },
  none: { label: "nothing was sent", tone: "quiet", cuts: 0 },
};

export type Turn = "degraded" | "failing" | "warned" | "off" | "on" | "recovered";

export const TURNS: Record<Turn, { label: string; tone: Tone }> = {
  degraded: { label: "Degraded", tone: "warn" },
  failing: { label: "Failing", tone: "bad" },
  warned: { label: "About to be switched off", tone: "warn" },
  off: { label: "Switched off", tone: "held" },
  on: { label: "Switched on", tone: "busy" },
  recovered: { label: "Recovered", tone: "good" },
};

/** A change of an endpoint's state. */
export interface Change {
  atMs: number;
  turn: Turn;
  text: string;
}

export interface Bucket {
  fromMs: number;
  toMs: number;
  attempts: number;
  failed: number;
  state: BucketState;
  changes: Change[];
}

const NOTICED: Record<string, Turn> = {
  "endpoint.degraded": "degraded",
  "endpoint.warning": "warned",
  "endpoint.disabled": "off",
  "endpoint.recovered": "recovered",
};

const STATE_TURNS: Record<string, Turn> = { degraded: "degraded", failing: "failing", disabled: "off", healthy: "recovered" };

/** What is known of an endpoint. Switching on leaves no notice, so it is read from the audit, where the key may look at that. */
export interface Known {
  notices: Notice[];
  switchedOn: AuditEntry[];
  health: Pick<EndpointHealth, "state" | "since"> | null;
  endpoint: Pick<Endpoint, "id" | "disabled_at">;
}

/** The changes of an endpoint's state, the oldest first. */
export function changesOf({ notices, switchedOn, health, endpoint }: Known): Change[] {
  const changes: Change[] = [];
  for (const notice of notices) {
    const turn = notice.kind === "endpoint.degraded" && notice.reason === "failing" ? "failing" : NOTICED[notice.kind];
    if (turn !== undefined) changes.push({ atMs: Date.parse(notice.at), turn, text: notice.text });
  }
  for (const entry of switchedOn) {
    if (entry.thing === endpoint.id) changes.push({ atMs: Date.parse(entry.at), turn: "on", text: "" });
  }
  changes.sort((one, other) => one.atMs - other.atMs);
  const untold = health && untoldChange(changes, health, endpoint.disabled_at ?? null);
  return untold ? [...changes, untold] : changes;
}

/** The state as it is now, where nobody was told how it came to be so. */
function untoldChange(changes: Change[], health: Pick<EndpointHealth, "state" | "since">, offAt: string | null): Change | null {
  const last = changes.filter((each) => each.turn !== "warned").at(-1);
  const turn = STATE_TURNS[health.state];
  if (turn === undefined || last?.turn === turn) return null;
  if (turn === "recovered" && (last === undefined || last.turn === "on")) return null;
  const atMs = Date.parse((turn === "off" ? offAt : null) ?? health.since);
  // What began before the last change is no change after it.
  if (last !== undefined && atMs <= last.atMs) return null;
  return { atMs, turn: turn === "recovered" && last?.turn === "off" ? "on" : turn, text: "" };
}

interface Drawn {
  stats: Pick<Stats, "series" | "step_seconds">;
  changes: Change[];
  isOffNow: boolean;
  /** How many there is room for. */
  most: number;
}

/** Buckets of whole steps, cut at times that do not move while the window does. */
export function bucketsOf({ stats, changes, isOffNow, most }: Drawn): Bucket[] {
  const stepMs = stats.step_seconds * 1000;
  const widthMs = stepMs * Math.max(1, Math.ceil(stats.series.length / most));
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
    bucket.state = stateOf(bucket, wasOff(changes, bucket.toMs - 1, isOffNow));
  }
  return buckets;
}

/** Tests go out even to an endpoint that is off, so what was sent says more. */
export function stateOf({ attempts, failed }: { attempts: number; failed: number }, isOff: boolean): BucketState {
  if (attempts === 0) return isOff ? "off" : "none";
  if (failed * 2 > attempts) return "most";
  return failed * 100 > attempts ? "some" : "good";
}

/** Whether it was off at an instant. If it is on by now and nothing tells since when, that is not known. */
function wasOff(changes: Change[], atMs: number, isOffNow: boolean): boolean {
  const turns = changes.filter((each) => each.turn !== "warned");
  const last = turns.findLastIndex((each) => each.atMs <= atMs);
  return turns[last]?.turn === "off" && (last < turns.length - 1 || isOffNow);
}

const DAY_AND_TIME = new Intl.DateTimeFormat(undefined, {
  weekday: "short",
  day: "numeric",
  month: "short",
  hour: "2-digit",
  minute: "2-digit",
});
const TIME = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });

/** A bucket for those who do not see it, and in a line below for those who do. */
export function bucketText(bucket: Bucket): string {
  const when = `${DAY_AND_TIME.format(bucket.fromMs)} to ${TIME.format(bucket.toMs)}`;
  const succeeded = share(bucket.attempts === 0 ? null : (bucket.attempts - bucket.failed) / bucket.attempts);
  const what =
    bucket.attempts === 0
      ? BUCKET_STATES[bucket.state].label
      : `${counted(bucket.attempts, "attempt")}, ${bucket.failed} failed, ${succeeded} succeeded`;
  const turns = bucket.changes.map((each) => `${TURNS[each.turn].label} at ${TIME.format(each.atMs)}.`);
  return [`${when}: ${what}.`, ...turns].join(" ");
}

/** The whole strip in a sentence. */
export function stripText(buckets: Bucket[]): string {
  const inState = (state: BucketState) => buckets.filter((each) => each.state === state).length;
  const states = (Object.keys(BUCKET_STATES) as BucketState[]).filter((state) => inState(state) > 0);
  const spans = states.map((state) => `${BUCKET_STATES[state].label} in ${inState(state)}`);
  return `Health over time, in ${counted(buckets.length, "span")}: ${spans.join(", ")}`;
}
