// The draft of a form while it is shown, and the note that its record changed meanwhile.
import { useEffect, useState } from "preact/hooks";
import { newDraft, withRecord, withSaved, withEdits } from "./draft-state";

export interface DraftForm<D> {
  /** The record's current values. */
  base: D;
  draft: D;
  isOutdated: boolean;
  change: (changes: Partial<D>) => void;
  /** Takes over the response to saving `sent`. */
  markSaved: (sent: D, record: D, at: string) => void;
}

/** `at` is the record's own time of change. */
export function useDraft<D extends object>(record: D, at: string): DraftForm<D> {
  const [state, setState] = useState(() => newDraft(record, at));
  useEffect(() => setState((before) => withRecord(before, record, at)), [at]);
  return {
    base: state.base,
    draft: state.draft,
    isOutdated: state.isOutdated,
    change: (changes) => setState((before) => withEdits(before, changes)),
    markSaved: (sent, now, nowAt) => setState((before) => withSaved(before, sent, now, nowAt)),
  };
}

export function OutdatedNote({ by: { isOutdated } }: { by: { isOutdated: boolean } }) {
  if (!isOutdated) return null;
  return (
    <p class="note warn" role="status">
      It was changed elsewhere meanwhile. What you typed is kept, the other fields show how it is now: look at them, then save.
    </p>
  );
}
