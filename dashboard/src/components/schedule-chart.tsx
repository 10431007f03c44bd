// Draws a retry schedule: the time of each attempt after the first, and its jitter. The scale shows seconds and days.
import { useRef } from "preact/hooks";
import { type Schedule, timeRangeText, positionAt, ticks } from "../text/timeline";
import { contractDuration } from "../text/times";
import { useWidth } from "./width";

export interface ShownAttempt {
  afterMs: number;
  tone: "good" | "bad" | "warn";
  label: string;
}

interface Props {
  schedule: Schedule;
  endLabel: string;
  /** Past attempts. Planned ones are drawn from number `plannedFrom` on. */
  attempts?: ShownAttempt[];
  plannedFrom?: number;
  nowMs?: number | null;
  /** The delivery has ended: no planned attempts and no end are drawn. */
  isOver?: boolean;
}

const [LEFT, RIGHT, AXIS_Y, CHART_HEIGHT] = [12, 34, 38, 74];

export function ScheduleChart({ schedule, endLabel, attempts = [], plannedFrom = 1, nowMs = null, isOver = false }: Props) {
  const box = useRef<SVGSVGElement>(null);
  const width = useWidth(box);

  const endMs = Math.max(isOver ? 0 : schedule.end.latestMs, ...attempts.map((each) => each.afterMs));
  const x = (ms: number) => LEFT + positionAt(ms, endMs) * (width - LEFT - RIGHT);
  const planned = schedule.attempts.filter((each) => !isOver && each.number >= plannedFrom);
  const labelled = labelsWithRoom(planned.map((each) => x((each.earliestMs + each.latestMs) / 2)));
  const planText = `Attempts at ${schedule.attempts.map(timeRangeText).join(", ")}; ${endLabel} at ${timeRangeText(schedule.end)}`;
  const description = [...attempts.map((each) => each.label), ...(isOver ? [] : [planText])].join("; ");
  return (
    <svg ref={box} class="schedule-chart" viewBox={`0 0 ${width} ${CHART_HEIGHT}`} role="img" aria-label={description}>
      {ticks(endMs, 64 / width).map((tick) => {
        const at = LEFT + tick.at * (width - LEFT - RIGHT);
        return (
          <g key={tick.label}>
            <line class="tick" x1={at} x2={at} y1={AXIS_Y - 16} y2={AXIS_Y + 10} />
            <text
              x={at}
              y={CHART_HEIGHT - 10}
              text-anchor={tick.at === 0 ? "start" : tick.at === 1 ? "end" : "middle"}
              dx={tick.at === 1 ? RIGHT - 4 : tick.at === 0 ? -4 : 0}
            >
              {tick.at === 0 ? "T" : `+${tick.label}`}
            </text>
          </g>
        );
      })}
      <line class="axis" x1={LEFT} x2={x(endMs)} y1={AXIS_Y} y2={AXIS_Y} />
      {planned.map((each, at) => {
        const middle = x((each.earliestMs + each.latestMs) / 2);
        return (
          <g key={each.number}>
            <title>{`Attempt ${each.number}: ${timeRangeText(each)}`}</title>
            <rect
              class="jitter-range"
              x={x(each.earliestMs)}
              y={AXIS_Y - 7}
              width={Math.max(0, x(each.latestMs) - x(each.earliestMs))}
              height={14}
              rx={4}
            />
            <circle class="planned" cx={middle} cy={AXIS_Y} r={5} />
            {labelled[at] && (
              <text class="number-label" x={middle} y={AXIS_Y - 13}>
                {each.number}
              </text>
            )}
          </g>
        );
      })}
      {attempts.map((each, at) => (
        <g key={at}>
          <title>{`${each.label}, ${contractDuration(each.afterMs)} after the first`}</title>
          <circle class={each.tone} cx={x(each.afterMs)} cy={AXIS_Y} r={6} />
        </g>
      ))}
      {nowMs !== null && nowMs < endMs && <line class="now" x1={x(nowMs)} x2={x(nowMs)} y1={AXIS_Y - 20} y2={AXIS_Y + 12} />}
      {!isOver && (
        <g>
          <title>{`${endLabel} at ${timeRangeText(schedule.end)}`}</title>
          <line class="end" x1={x(schedule.end.latestMs)} x2={x(schedule.end.latestMs)} y1={AXIS_Y - 11} y2={AXIS_Y + 11} />
        </g>
      )}
    </svg>
  );
}

/** Decides for each position whether its label has room next to the label before it. */
function labelsWithRoom(positions: number[]): boolean[] {
  let last = Number.NEGATIVE_INFINITY;
  return positions.map((at) => {
    const isFree = at - last >= 14;
    if (isFree) last = at;
    return isFree;
  });
}
