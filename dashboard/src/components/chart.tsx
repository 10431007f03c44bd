// A chart over time. The chart library is loaded with the first chart that is shown.
import { useEffect, useRef } from "preact/hooks";
import type uPlot from "uplot";
import { shownTheme } from "../session/theme";

export interface ChartLine {
  label: string;
  /** A custom property of the style, for example `--good`. */
  colour: string;
  values: (number | null)[];
  isFilled?: boolean;
}

interface Props {
  /** Text for screen readers. */
  summary: string;
  /** Seconds since 1970. */
  times: number[];
  lines: ChartLine[];
  format: (value: number) => string;
  /** The values are whole numbers, so the axis has no fractions. */
  isWhole?: boolean;
  height?: number;
}

const INTEGER_STEPS = Array.from({ length: 10 }, (_, digits) => [1, 2, 5].map((step) => step * 10 ** digits)).flat();

export function Chart({ summary, times, lines, format, isWhole = false, height = 190 }: Props) {
  const container = useRef<HTMLDivElement>(null);
  const plotRef = useRef<uPlot | null>(null);
  const shape = `${lines.map((line) => line.label).join()} ${shownTheme.value}`;

  useEffect(() => {
    let isUnmounted = false;
    const resize = new ResizeObserver(() => {
      if (container.current) plotRef.current?.setSize({ width: container.current.clientWidth, height });
    });
    void Promise.all([import("uplot"), import("uplot/dist/uPlot.min.css")]).then(([{ default: Plot }]) => {
      if (isUnmounted || !container.current) return;
      plotRef.current = new Plot(
        options({ lines, format, isWhole, height }, container.current.clientWidth),
        dataOf(times, lines),
        container.current,
      );
      resize.observe(container.current);
    });
    return () => {
      isUnmounted = true;
      resize.disconnect();
      plotRef.current?.destroy();
      plotRef.current = null;
    };
  }, [shape]);
  useEffect(() => plotRef.current?.setData(dataOf(times, lines)), [times, lines]);
  return <div ref={container} class="chart" role="img" aria-label={summary} />;
}

/** Tick formats by step in seconds: the text of a tick, and the addition on the first tick of a day. */
const TIME_TICKS = [
  [86_400, "{D} {MMM}", null, null, null, null, null, null, 1],
  [60, "{HH}:{mm}", "\n{D} {MMM}", null, "\n{D} {MMM}", null, null, null, 1],
] as uPlot.Axis.Values;

function dataOf(times: number[], lines: ChartLine[]): uPlot.AlignedData {
  return [times, ...lines.map((line) => line.values)];
}

/** Returns points without neighbours, which no line would show. */
function isolatedPoints(plot: uPlot, series: number): number[] {
  const values = plot.data[series] ?? [];
  return [...values.keys()].filter((at) => values[at] != null && values[at - 1] == null && values[at + 1] == null);
}

type ChartShape = Required<Pick<Props, "lines" | "format" | "isWhole" | "height">>;

function options({ lines, format, isWhole, height }: ChartShape, width: number): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const axis = {
    stroke: colour("--muted"),
    font: `11px ${colour("--font")}`,
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { stroke: colour("--line"), width: 1 },
  };
  return {
    width,
    height,
    cursor: { points: { size: 6 } },
    scales: { y: { range: (_plot, _low, high) => [0, high > 0 ? high * 1.1 : 1] } },
    axes: [
      { ...axis, values: TIME_TICKS },
      {
        ...axis,
        size: 62,
        values: (_plot, values) => values.map((value) => format(value)),
        ...(isWhole ? { incrs: INTEGER_STEPS } : {}),
      },
    ],
    series: [
      { value: "{YYYY}-{MM}-{DD} {HH}:{mm}" },
      ...lines.map((line) => ({
        label: line.label,
        stroke: colour(line.colour),
        width: 2,
        ...(line.isFilled ? { fill: `${colour(line.colour)}26` } : {}),
        points: { show: true, size: 5, fill: colour(line.colour), filter: isolatedPoints },
        value: (_plot: uPlot, value: number | null) => (value === null ? "–" : format(value)),
      })),
    ],
  };
}
