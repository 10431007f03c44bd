// A form that is filled in while the record behind it changes: what was typed stays, the rest follows the record.

export interface Edited<D> {
  /** As the record was when it was last seen. */
  base: D;
  draft: D;
  /** When the record was changed, as it says. */
  at: string;
  /** What is typed is about a record that changed meanwhile. */
  isOvertaken: boolean;
}

export function begun<D>(base: D, at: string): Edited<D> {
  return { base, draft: base, at, isOvertaken: false };
}

export function typed<D extends object>(edited: Edited<D>, changes: Partial<D>): Edited<D> {
  const draft = { ...edited.draft, ...changes };
  return { ...edited, draft, isOvertaken: edited.isOvertaken && isDifferent(edited.base, draft) };
}

/** The record as it is now. Answers may be late: one that is older than what was seen changes nothing. */
export function followed<D extends object>(edited: Edited<D>, base: D, at: string): Edited<D> {
  if (Date.parse(at) < Date.parse(edited.at)) return edited;
  const draft = { ...base };
  for (const name of namesOf(base)) {
    if (edited.draft[name] !== edited.base[name]) draft[name] = edited.draft[name];
  }
  const isChanged = edited.isOvertaken || isDifferent(edited.base, base);
  return { base, draft, at, isOvertaken: isChanged && isDifferent(base, draft) };
}

/** The record as the answer to `sent` has it. What was typed since then stays. */
export function saved<D extends object>(edited: Edited<D>, sent: D, base: D, at: string): Edited<D> {
  return { ...followed({ ...edited, base: sent }, base, at), isOvertaken: false };
}

function isDifferent<D extends object>(one: D, other: D): boolean {
  return namesOf(one).some((name) => one[name] !== other[name]);
}

function namesOf<D extends object>(fields: D): (keyof D)[] {
  return Object.keys(fields) as (keyof D)[];
}
