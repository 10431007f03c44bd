// Draft state of a form whose record may change meanwhile: edited fields stay, the others follow the record.

export interface DraftState<D> {
  /** The record as last seen. */
  base: D;
  draft: D;
  /** The record's own time of change. */
  at: string;
  /** Whether the record changed after the edits, and still differs from the draft. */
  isOutdated: boolean;
}

export function newDraft<D>(base: D, at: string): DraftState<D> {
  return { base, draft: base, at, isOutdated: false };
}

export function withEdits<D extends object>(state: DraftState<D>, changes: Partial<D>): DraftState<D> {
  const draft = { ...state.draft, ...changes };
  return { ...state, draft, isOutdated: state.isOutdated && isDifferent(state.base, draft) };
}

/** Merges a newer record into the draft. A record older than the last one seen is ignored. */
export function withRecord<D extends object>(state: DraftState<D>, base: D, at: string): DraftState<D> {
  if (Date.parse(at) < Date.parse(state.at)) return state;
  const draft = { ...base };
  for (const name of namesOf(base)) {
    if (state.draft[name] !== state.base[name]) draft[name] = state.draft[name];
  }
  const isChanged = state.isOutdated || isDifferent(state.base, base);
  return { base, draft, at, isOutdated: isChanged && isDifferent(base, draft) };
}

/** Merges the record that saving `sent` returned. Edits made since then stay. */
export function withSaved<D extends object>(state: DraftState<D>, sent: D, base: D, at: string): DraftState<D> {
  return { ...withRecord({ ...state, base: sent }, base, at), isOutdated: false };
}

function isDifferent<D extends object>(one: D, other: D): boolean {
  return namesOf(one).some((name) => one[name] !== other[name]);
}

function namesOf<D extends object>(fields: D): (keyof D)[] {
  return Object.keys(fields) as (keyof D)[];
}
