import { signal } from "@preact/signals";
import { type ApiError, adviceFor } from "../api/error";

interface Toast {
  id: number;
  text: string;
  isError: boolean;
}

const toasts = signal<Toast[]>([]);
let last = 0;

function addToast(text: string, isError: boolean, forMs: number): void {
  const id = ++last;
  toasts.value = [...toasts.value.slice(-2), { id, text, isError }];
  setTimeout(() => dismiss(id), forMs);
}

function dismiss(id: number): void {
  toasts.value = toasts.value.filter((each) => each.id !== id);
}

export function showToast(text: string): void {
  addToast(text, false, 4000);
}

export function showErrorToast(error: ApiError): void {
  const advice = adviceFor(error);
  addToast(advice ? `${error.message} ${advice}` : error.message, true, 12_000);
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((each) => (
        <div key={each.id} class={each.isError ? "toast bad" : "toast"}>
          <span>{each.text}</span>
          <button type="button" class="plain" aria-label="Dismiss" onClick={() => dismiss(each.id)}>
            ×
          </button>
        </div>
      ))}
    </div>
  );
}
