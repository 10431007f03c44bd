// A strip of recent results: one mark per item, the newest last. Each mark links to its item.

export interface Mark {
  id: string;
  href: string;
  tone: string;
  label: string;
  /** Tooltip, if it says more than the label. */
  title?: string;
}

/** `marks` are ordered newest first, as in lists. */
export function MarkStrip({ marks }: { marks: Mark[] }) {
  return (
    <div class="mark-strip">
      {[...marks].reverse().map((mark) => (
        <a key={mark.id} href={mark.href} class={mark.tone} title={mark.title ?? mark.label} aria-label={mark.label} />
      ))}
    </div>
  );
}
