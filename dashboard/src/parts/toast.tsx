import { signal } from "@preact/signals";
import { type Refusal, whatToDo } from "../api/problem";

interface Said {
  id: number;
  text: string;
  isBad: boolean;
}

const said = signal<Said[]>([]);
let last = 0;

function add(text: string, isBad: boolean, forMs: number): void {
  const id = ++last;
  said.value = [...said.value.slice(-2), { id, text, isBad }];
  setTimeout(() => dismiss(id), forMs);
}

function dismiss(id: number): void {
  said.value = said.value.filter((each) => each.id !== id);
}

export function say(text: string): void {
  add(text, false, 4000);
}

export function sayRefusal(refusal: Refusal): void {
  const todo = whatToDo(refusal);
  add(todo ? `${refusal.message} ${todo}` : refusal.message, true, 12_000);
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {said.value.map((each) => (
        <div key={each.id} class={each.isBad ? "toast bad" : "toast"}>
          <span>{each.text}</span>
          <button type="button" class="plain" aria-label="Dismiss" onClick={() => dismiss(each.id)}>
            ×
          </button>
        </div>
      ))}
    </div>
  );
}
