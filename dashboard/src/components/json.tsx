// A payload, indented or raw. Always shown as text.
import { useMemo, useState } from "preact/hooks";
import { pretty } from "../text/json-text";
import { CopyButton } from "./copy";

/** Longer texts are cut and not indented, because they would make the page slow. */
const JSON_CHARS_MAX = 200_000;

export function Json({ text, label }: { text: string; label: string }) {
  const [isRaw, setRaw] = useState(false);
  const laidOut = useMemo(() => prettyOrNull(text), [text]);
  const shown = isRaw || laidOut === null ? text : laidOut;
  return (
    <div class="json">
      <div class="json-head buttons">
        {laidOut !== null && (
          <div class="segments" role="group" aria-label={`How to show the ${label}`}>
            <button type="button" aria-pressed={!isRaw} onClick={() => setRaw(false)}>
              Pretty
            </button>
            <button type="button" aria-pressed={isRaw} onClick={() => setRaw(true)}>
              Raw
            </button>
          </div>
        )}
        <CopyButton text={shown} />
      </div>
      <pre tabIndex={0} aria-label={label}>
        <code>{shown.slice(0, JSON_CHARS_MAX)}</code>
      </pre>
      {shown.length > JSON_CHARS_MAX && <p class="muted">Only the beginning is shown; copy it to see all.</p>}
    </div>
  );
}

function prettyOrNull(text: string): string | null {
  if (text.length > JSON_CHARS_MAX) return null;
  try {
    JSON.parse(text);
    return pretty(text);
  } catch {
    return null;
  }
}

export function Code({ text, label }: { text: string; label: string }) {
  return (
    <div class="json">
      <div class="json-head buttons">
        <CopyButton text={text} />
      </div>
      <pre tabIndex={0} aria-label={label}>
        <code>{text}</code>
      </pre>
    </div>
  );
}
