// What an id is the id of. Callers may give ids of their own, so a prefix only says where to look first.

export type Kind = "app" | "endpoint" | "event" | "delivery" | "replay" | "key" | "event_type" | "contract";

const PREFIXES: Record<string, Kind> = {
  app: "app",
  ep: "endpoint",
  evt: "event",
  msg: "event",
  dlv: "delivery",
  del: "delivery",
  rpl: "replay",
  key: "key",
};

const EVERYWHERE: readonly Kind[] = ["event", "endpoint", "delivery", "app", "event_type", "contract"];
const ATTEMPT = /^del_([0-9a-hjkmnp-tv-z]{13})\d+$/;

/** The kinds to try, the likeliest first. */
export function kindsOf(id: string): Kind[] {
  const first = PREFIXES[/^([a-z]+)_/.exec(id)?.[1] ?? ""];
  if (first === "replay" || first === "key") return [first];
  return first ? [first, ...EVERYWHERE.filter((kind) => kind !== first)] : [...EVERYWHERE];
}

/** An attempt's id has its delivery's in it. */
export function deliveryOf(id: string): string {
  const digits = ATTEMPT.exec(id)?.[1];
  return digits ? `dlv_${digits}` : id;
}
