// A form's draft, for as long as it is on show; and the note that the record behind it changed.
import { useEffect, useState } from "preact/hooks";
import { newDraft, withRecord, withSaved, withEdits } from "./draft-state";

export interface DraftForm<D> {
  /** As the record is. */
  base: D;
  draft: D;
  isOutdated: boolean;
  change: (changes: Partial<D>) => void;
  /** After `sent` was saved and came back. */
  markSaved: (sent: D, record: D, at: string) => void;
}

/** `at`: when the record was changed, as it says. */
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
