// The browser's native dialog: it keeps the keyboard focus inside, closes with Escape, and restores the focus.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type ApiError, toApiError } from "../api/error";
import { ErrorMessage } from "./query-view";

interface Props {
  title: string;
  /** Label of the action button. Without it the dialog can only be closed. */
  action?: string;
  isDangerous?: boolean;
  isReady?: boolean;
  onAct?: () => Promise<unknown>;
  onClose: () => void;
  children: ComponentChildren;
}

export function Dialog({ title, action, isDangerous = false, isReady = true, onAct, onClose, children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [isActing, setActing] = useState(false);
  useEffect(() => dialog.current?.showModal(), []);

  const act = async (event: Event) => {
    event.preventDefault();
    if (!onAct || isActing) return;
    setActing(true);
    setError(null);
    try {
      await onAct();
    } catch (error) {
      setError(toApiError(error));
    } finally {
      setActing(false);
    }
  };

  return (
    <dialog ref={dialog} aria-labelledby="dialog-title" onClose={onClose}>
      <form onSubmit={(event) => void act(event)}>
        <h2 id="dialog-title">{title}</h2>
        {children}
        {error && <ErrorMessage error={error} />}
        <div class="buttons end">
          <button type="button" onClick={() => dialog.current?.close()}>
            {action ? "Back" : "Close"}
          </button>
          {action && (
            <button type="submit" class={isDangerous ? "danger" : "primary"} disabled={!isReady || isActing}>
              {isActing ? "Working…" : action}
            </button>
          )}
        </div>
      </form>
    </dialog>
  );
}
