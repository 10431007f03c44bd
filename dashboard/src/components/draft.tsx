// A form's draft, for as long as it is on show; and the note that the record behind it changed.
import { useEffect, useState } from "preact/hooks";
import { begun, followed, saved, typed } from "./draft-state";

export interface DraftOf<D> {
  /** As the record is. */
  base: D;
  draft: D;
  isOvertaken: boolean;
  change: (changes: Partial<D>) => void;
  /** After `sent` was saved and came back. */
  keep: (sent: D, record: D, at: string) => void;
}

/** `at`: when the record was changed, as it says. */
export function useDraft<D extends object>(record: D, at: string): DraftOf<D> {
  const [edited, setEdited] = useState(() => begun(record, at));
  useEffect(() => setEdited((before) => followed(before, record, at)), [at]);
  return {
    base: edited.base,
    draft: edited.draft,
    isOvertaken: edited.isOvertaken,
    change: (changes) => setEdited((before) => typed(before, changes)),
    keep: (sent, now, nowAt) => setEdited((before) => saved(before, sent, now, nowAt)),
  };
}

export function Overtaken({ by: { isOvertaken } }: { by: { isOvertaken: boolean } }) {
  if (!isOvertaken) return null;
  return (
    <p class="note warn" role="status">
      It was changed elsewhere meanwhile. What you typed is kept, the other fields show how it is now: look at them, then save.
    </p>
  );
}
