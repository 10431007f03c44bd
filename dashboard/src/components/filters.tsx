// The filters of a list. On a phone a button opens them and shows how many are set.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { currentQuery, setFilters } from "../route/router";
import { Field } from "./field";

const TYPING_PAUSE_MS = 300;

export function Filters({ activeCount, children }: { activeCount: number; children: ComponentChildren }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <div class={isOpen ? "filters-box is-open" : "filters-box"}>
      <button type="button" class="filters-toggle" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {activeCount > 0 ? `Filters (${activeCount})` : "Filters"}
      </button>
      <div class="filters">{children}</div>
    </div>
  );
}

interface FilterFieldProps {
  label: string;
  /** Name in the query string. */
  name: string;
  placeholder?: string;
  suggestions?: string[];
}

/** A text filter. It is applied when typing pauses, so that not every letter causes a request. */
export function FilterField({ label, name, placeholder, suggestions }: FilterFieldProps) {
  const current = currentQuery.value.get(name) ?? "";
  const [typed, setTyped] = useState(current);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => setTyped(current), [current]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const type = (value: string) => {
    setTyped(value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setFilters({ [name]: value.trim() }), TYPING_PAUSE_MS);
  };
  return (
    <Field
      label={label}
      value={typed}
      onInput={type}
      {...(placeholder ? { placeholder } : {})}
      {...(suggestions ? { suggestions } : {})}
    />
  );
}
