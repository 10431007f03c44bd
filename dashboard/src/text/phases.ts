// Divides the duration of an attempt into phases.

export interface Timings {
  dns_ms?: number | null;
  connect_ms?: number | null;
  tls_ms?: number | null;
  first_byte_ms?: number | null;
  total_ms: number;
}

export interface Phase {
  name: "dns" | "connect" | "tls" | "wait" | "body";
  label: string;
  ms: number;
}

/** Returns the phases with their durations. The rest of the total counts as body. Phases that did not happen are left out. */
export function phasesOf(timings: Timings): Phase[] {
  const before = (timings.dns_ms ?? 0) + (timings.connect_ms ?? 0) + (timings.tls_ms ?? 0);
  const toFirstByte = timings.first_byte_ms ?? null;
  const phases: Phase[] = [
    { name: "dns", label: "Name looked up", ms: timings.dns_ms ?? 0 },
    { name: "connect", label: "Connected", ms: timings.connect_ms ?? 0 },
    { name: "tls", label: "Secured", ms: timings.tls_ms ?? 0 },
    { name: "wait", label: "Waited for the answer", ms: toFirstByte ?? Math.max(0, timings.total_ms - before) },
    { name: "body", label: "Answer read", ms: toFirstByte === null ? 0 : Math.max(0, timings.total_ms - before - toFirstByte) },
  ];
  return phases.filter((phase) => phase.ms > 0);
}
