// A button that runs an API action and reports success or failure. Dangerous actions ask for confirmation.
import { useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { toApiError } from "../api/error";
import { Dialog } from "./dialog";
import { showToast, showErrorToast } from "./toast";

interface Props {
  label: string;
  /** Shown after success, where the page does not show it by itself. */
  done?: string;
  act: () => Promise<unknown>;
  /** Question of the confirmation dialog. Without it the action runs at once. */
  confirm?: ComponentChildren;
  isDangerous?: boolean;
  isPrimary?: boolean;
  isSmall?: boolean;
  title?: string;
}

export function Action({ label, done, act, confirm, isDangerous = false, isPrimary = false, isSmall = false, title }: Props) {
  const [isConfirming, setConfirming] = useState(false);
  const [isActing, setActing] = useState(false);
  const run = async () => {
    setActing(true);
    try {
      await act();
      if (done) showToast(done);
    } catch (error) {
      showErrorToast(toApiError(error));
    } finally {
      setActing(false);
    }
  };
  const classes = [isPrimary && "primary", isDangerous && "danger-quiet", isSmall && "small"].filter(Boolean).join(" ");
  return (
    <>
      <button
        type="button"
        class={classes}
        title={title}
        disabled={isActing}
        onClick={() => (confirm ? setConfirming(true) : void run())}
      >
        {label}
      </button>
      {isConfirming && (
        <Dialog
          title={label}
          action={label}
          isDangerous={isDangerous}
          onClose={() => setConfirming(false)}
          onAct={async () => {
            await act();
            setConfirming(false);
            if (done) showToast(done);
          }}
        >
          <p>{confirm}</p>
        </Dialog>
      )}
    </>
  );
}
