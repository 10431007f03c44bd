// One mark a thing, the newest last: how something has been doing, at a glance. Each mark leads to what it stands for.

export interface Mark {
  id: string;
  href: string;
  tone: string;
  label: string;
  /** Shown under the pointer, where it says more than the label. */
  title?: string;
}

/** Takes the newest first, as lists do. */
export function MarkStrip({ marks }: { marks: Mark[] }) {
  return (
    <div class="mark-strip">
      {[...marks].reverse().map((mark) => (
        <a key={mark.id} href={mark.href} class={mark.tone} title={mark.title ?? mark.label} aria-label={mark.label} />
      ))}
    </div>
  );
}
