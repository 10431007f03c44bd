// A form that is filled in while the record behind it changes: what was typed stays, the rest follows the record.

export interface DraftState<D> {
  /** As the record was when it was last seen. */
  base: D;
  draft: D;
  /** When the record was changed, as it says. */
  at: string;
  /** What is typed is about a record that changed meanwhile. */
  isOutdated: boolean;
}

export function newDraft<D>(base: D, at: string): DraftState<D> {
  return { base, draft: base, at, isOutdated: false };
}

export function withEdits<D extends object>(state: DraftState<D>, changes: Partial<D>): DraftState<D> {
  const draft = { ...state.draft, ...changes };
  return { ...state, draft, isOutdated: state.isOutdated && isDifferent(state.base, draft) };
}

/** The record as it is now. Answers may be late: one that is older than what was seen changes nothing. */
export function withRecord<D extends object>(state: DraftState<D>, base: D, at: string): DraftState<D> {
  if (Date.parse(at) < Date.parse(state.at)) return state;
  const draft = { ...base };
  for (const name of namesOf(base)) {
    if (state.draft[name] !== state.base[name]) draft[name] = state.draft[name];
  }
  const isChanged = state.isOutdated || isDifferent(state.base, base);
  return { base, draft, at, isOutdated: isChanged && isDifferent(base, draft) };
}

/** The record as the answer to `sent` has it. What was typed since then stays. */
export function withSaved<D extends object>(state: DraftState<D>, sent: D, base: D, at: string): DraftState<D> {
  return { ...withRecord({ ...state, base: sent }, base, at), isOutdated: false };
}

function isDifferent<D extends object>(one: D, other: D): boolean {
  return namesOf(one).some((name) => one[name] !== other[name]);
}

function namesOf<D extends object>(fields: D): (keyof D)[] {
  return Object.keys(fields) as (keyof D)[];
}
