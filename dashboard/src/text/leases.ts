// Describes a node's lease: how long it may work without renewing it.
import { formatDuration } from "./times";

export function leaseText({ lease_ms }: { lease_ms?: number | null }): string {
  if (lease_ms == null) return "needs none";
  return lease_ms > 0 ? `${formatDuration(lease_ms)} left` : "over: others take over";
}
