// The filters of a list. On a phone they are behind a button, which says how many are set.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

export function Filters({ setCount, children }: { setCount: number; children: ComponentChildren }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <div class={isOpen ? "filters-box is-open" : "filters-box"}>
      <button type="button" class="filters-toggle" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {setCount > 0 ? `Filters (${setCount})` : "Filters"}
      </button>
      <div class="filters">{children}</div>
    </div>
  );
}
