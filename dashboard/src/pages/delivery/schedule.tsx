import { now } from "../../components/clock";
import { type ShownAttempt, ScheduleChart } from "../../components/schedule-chart";
import { isTerminal } from "../../text/states";
import { scheduleOf } from "../../text/timeline";
import type { DeliveryContext } from "./delivery";

/** The contract's schedule with the attempts made so far. Renders nothing if there is little to see. */
export function DeliverySchedule({ context: { delivery, contract } }: { context: DeliveryContext }) {
  const first = delivery.attempts[0];
  if (contract === null || first === undefined || delivery.attempts_expired) return null;
  if (isTerminal(delivery.status) && delivery.attempts.length === 1) return null;
  const startMs = Date.parse(first.started_at);
  const attempts = delivery.attempts.map((attempt): ShownAttempt => ({
    afterMs: Math.max(0, Date.parse(attempt.started_at) - startMs),
    tone: attempt.success ? "good" : attempt.number === null ? "warn" : "bad",
    label:
      attempt.number === null
        ? `An attempt that does not count: ${attempt.class}`
        : `Attempt ${attempt.number}: ${attempt.status_code ?? attempt.class}`,
  }));
  const isOver = isTerminal(delivery.status);
  return (
    <ScheduleChart
      schedule={scheduleOf(contract.retry)}
      endLabel="dead"
      attempts={attempts}
      plannedFrom={delivery.attempt_count + 1}
      isOver={isOver}
      nowMs={isOver ? null : now.value - startMs}
    />
  );
}
