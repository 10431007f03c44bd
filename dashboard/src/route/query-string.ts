// Query strings: what a page reads out of them and writes back.

export type QueryChanges = Record<string, string | null | undefined>;

/** With `?`, or empty. Empty values are left out, so that an address says only what is filtered. */
export function withChanges(query: URLSearchParams, changes: QueryChanges): string {
  const next = new URLSearchParams(query);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "") next.delete(name);
    else next.set(name, value);
  }
  // Lists of states are easier to read, and to write, with plain commas.
  const text = next.toString().replaceAll("%2C", ",").replaceAll("%3A", ":");
  return text === "" ? "" : `?${text}`;
}

/** The named values that are there. */
export function pickQuery<Name extends string>(query: URLSearchParams, names: readonly Name[]): Partial<Record<Name, string>> {
  const found: Partial<Record<Name, string>> = {};
  for (const name of names) {
    const value = query.get(name);
    if (value !== null && value !== "") found[name] = value;
  }
  return found;
}
