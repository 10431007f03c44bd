// Reads and writes query strings.

export type QueryChanges = Record<string, string | null | undefined>;

/** Applies changes to a query string. The result starts with `?` or is empty. Empty values are left out, so that the address
 *  shows only the filters that are set. */
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

/** Returns the named values that are present and not empty. */
export function pickQuery<Name extends string>(query: URLSearchParams, names: readonly Name[]): Partial<Record<Name, string>> {
  const found: Partial<Record<Name, string>> = {};
  for (const name of names) {
    const value = query.get(name);
    if (value !== null && value !== "") found[name] = value;
  }
  return found;
}
