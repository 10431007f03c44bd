// An endpoint's health over time: one column per bucket, one mark per change of state. A slider lies over the drawing, so that
// each bucket can be reached by keyboard, touch or pointer, and is read by screen readers.
import { useRef, useState } from "preact/hooks";
import { BUCKET_STATES, type Bucket, type BucketState, STATE_CHANGE_KINDS, bucketText, stripText } from "../text/health";
import { useWidth } from "./width";

const [MARK_HEIGHT, COLUMN_HEIGHT, EMPTY_HEIGHT] = [14, 34, 4];
const STRIP_HEIGHT = MARK_HEIGHT + COLUMN_HEIGHT;

export function HealthStrip({ buckets }: { buckets: Bucket[] }) {
  const box = useRef<SVGSVGElement>(null);
  const width = useWidth(box, 120);
  // Chosen by time and not by index, because the window moves.
  const [chosenMs, setChosen] = useState<number | null>(null);
  const last = buckets.length - 1;
  const found = buckets.findIndex((each) => each.fromMs === chosenMs);
  const at = found >= 0 ? found : last;
  const chosen = buckets[at];
  const start = buckets[0]?.fromMs ?? 0;
  const lengthMs = (buckets[last]?.toMs ?? 1) - start;
  const x = (ms: number) => ((ms - start) / lengthMs) * width;
  if (chosen === undefined) return null;
  const description = bucketText(chosen);
  const choose = (index: number) => setChosen(buckets[Math.min(last, Math.max(0, index))]?.fromMs ?? null);
  return (
    <div class="health">
      <div class="health-strip">
        <svg ref={box} viewBox={`0 0 ${width} ${STRIP_HEIGHT}`} role="img" aria-label={stripText(buckets)}>
          {buckets.map((each) => {
            const left = x(each.fromMs);
            return <Column key={each.fromMs} state={each.state} left={left} width={Math.max(1.5, x(each.toMs) - left - 1)} />;
          })}
          <rect
            class="chosen"
            x={x(chosen.fromMs) - 0.5}
            y={MARK_HEIGHT - 1}
            width={x(chosen.toMs) - x(chosen.fromMs)}
            height={COLUMN_HEIGHT + 1}
          />
          {buckets.flatMap((each) =>
            each.changes.map((change) => (
              <path
                key={`${change.kind} ${change.atMs}`}
                class={STATE_CHANGE_KINDS[change.kind].tone}
                d={`M${Math.min(width - 5, Math.max(5, x(change.atMs)))} ${MARK_HEIGHT - 3}l-5 -9h10z`}
              />
            )),
          )}
        </svg>
        <input
          type="range"
          aria-label="Look at a span of time"
          min={0}
          max={last}
          step={1}
          value={at}
          aria-valuetext={description}
          onInput={(event) => choose(Number(event.currentTarget.value))}
          onPointerMove={(event) => {
            const area = event.currentTarget.getBoundingClientRect();
            const ms = start + ((event.clientX - area.left) / area.width) * lengthMs;
            choose(buckets.findLastIndex((each) => each.fromMs <= ms));
          }}
        />
      </div>
      <p class="health-text" aria-hidden="true">
        {description}
      </p>
      <ul class="health-legend" aria-label="What the columns mean">
        {(Object.keys(BUCKET_STATES) as BucketState[]).map((state) => (
          <li key={state}>
            <svg viewBox={`0 0 12 ${COLUMN_HEIGHT}`} aria-hidden="true">
              <Column state={state} left={0} width={12} top={0} />
            </svg>
            {BUCKET_STATES[state].label}
          </li>
        ))}
        <li>
          <svg viewBox="0 0 12 12" aria-hidden="true">
            <path class="quiet" d="M6 11l-5 -9h10z" />
          </svg>
          state changed
        </li>
      </ul>
    </div>
  );
}

/** Draws a bucket. More failures mean more cuts in the column. */
function Column({ state, left, width, top = MARK_HEIGHT }: { state: BucketState; left: number; width: number; top?: number }) {
  const { tone, cuts } = BUCKET_STATES[state];
  if (state === "none" || state === "off") {
    const height = state === "off" ? COLUMN_HEIGHT / 2 : EMPTY_HEIGHT;
    return <rect class={tone} x={left} y={top + COLUMN_HEIGHT - height} width={width} height={height} />;
  }
  const part = (COLUMN_HEIGHT - cuts * 3) / (cuts + 1);
  return (
    <>
      {Array.from({ length: cuts + 1 }, (_, each) => (
        <rect key={each} class={tone} x={left} y={top + each * (part + 3)} width={width} height={part} />
      ))}
    </>
  );
}
