import { phasesOf, type Timings } from "../../text/phases";
import { formatDuration } from "../../text/times";

export function Phases({ timings }: { timings: Timings }) {
  const phases = phasesOf(timings);
  const total = phases.reduce((sum, phase) => sum + phase.ms, 0);
  if (total === 0) return <p class="about">Nothing took any time.</p>;
  let at = 0;
  return (
    <div>
      <svg
        class="phases"
        viewBox="0 0 100 10"
        preserveAspectRatio="none"
        role="img"
        aria-label={phases.map((phase) => `${phase.label}: ${formatDuration(phase.ms)}`).join(", ")}
      >
        {phases.map((phase) => {
          const width = (phase.ms / total) * 100;
          const x = at;
          at += width;
          return <rect key={phase.name} class={`phase-${phase.name}`} x={x} y={0} width={width} height={10} />;
        })}
      </svg>
      <div class="phase-keys">
        {phases.map((phase) => (
          <span key={phase.name}>
            <i class={`key-${phase.name}`} />
            {phase.label} {formatDuration(phase.ms)}
          </span>
        ))}
        <span>total {formatDuration(timings.total_ms)}</span>
      </div>
    </div>
  );
}
