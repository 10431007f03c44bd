// Computes the times of attempts from waits and jitter, and their positions on a drawing.
import type { ContractDocument } from "./contract-document";
import { durationMs, contractDuration } from "./times";

export interface PlannedAttempt {
  number: number;
  earliestMs: number;
  latestMs: number;
}

export interface Schedule {
  attempts: PlannedAttempt[];
  end: { earliestMs: number; latestMs: number };
}

/** Returns the schedule for a receiver that always fails immediately. */
export function scheduleOf(retry: ContractDocument["retry"]): Schedule {
  const [low, high] = jitterBounds(retry.jitter);
  const attempts: PlannedAttempt[] = [{ number: 1, earliestMs: 0, latestMs: 0 }];
  let [earliestMs, latestMs] = [0, 0];
  for (const wait of retry.waits) {
    const ms = durationMs(wait) ?? 0;
    earliestMs += ms * low;
    latestMs += ms * high;
    attempts.push({ number: attempts.length + 1, earliestMs, latestMs });
  }
  const finalMs = retry.final_wait ? (durationMs(retry.final_wait) ?? 0) : 0;
  return { attempts, end: { earliestMs: earliestMs + finalMs, latestMs: latestMs + finalMs } };
}

/** Returns the lowest and highest factor by which jitter multiplies a wait. */
export function jitterBounds(jitter: string): [number, number] {
  if (jitter === "full") return [0, 1];
  const part = /^(\d+(?:\.\d+)?)%$/.exec(jitter);
  const width = part ? Number(part[1]) / 100 : 0;
  return [1 - width, 1 + width];
}

/** Returns an instant's position between 0 and 1. The scale is logarithmic, so that seconds and days are both visible. */
export function positionAt(ms: number, endMs: number): number {
  if (endMs <= 0) return 0;
  const scaled = (value: number) => Math.log1p(Math.max(0, value) / 2000);
  return Math.min(1, scaled(ms) / scaled(endMs));
}

const TICKS_MS = ["10s", "1m", "10m", "1h", "6h", "24h", "72h", "168h"].map((text) => durationMs(text) ?? 0);

/** Returns the axis labels. Their distance to each other and to the end is at least `gapMin`. */
export function ticks(endMs: number, gapMin = 0.12): { label: string; at: number }[] {
  const shown = [{ label: "T", at: 0 }];
  for (const ms of TICKS_MS) {
    const at = positionAt(ms, endMs);
    const last = shown.at(-1)?.at ?? 0;
    if (ms < endMs && at - last >= gapMin && 1 - at >= gapMin) shown.push({ label: contractDuration(ms), at });
  }
  return endMs > 0 ? [...shown, { label: contractDuration(endMs), at: 1 }] : shown;
}

export function timeRangeText({ earliestMs, latestMs }: { earliestMs: number; latestMs: number }): string {
  const [early, late] = [contractDuration(earliestMs), contractDuration(latestMs)];
  return early === late ? `T+${early}` : `T+${early}…${late}`;
}
