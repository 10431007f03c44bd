import { useState } from "preact/hooks";

/** Copies a text. Falls back to `execCommand` where the clipboard API is not available, as without HTTPS. */
export function CopyButton({ text, label = "Copy", title }: { text: string | (() => string); label?: string; title?: string }) {
  const [feedback, setFeedback] = useState<string | null>(null);
  const copy = async () => {
    const value = typeof text === "function" ? text() : text;
    const isDone = await writeToClipboard(value);
    setFeedback(isDone ? "Copied" : "Could not copy");
    setTimeout(() => setFeedback(null), 1500);
  };
  return (
    <button type="button" class="small" title={title} onClick={() => void copy()}>
      <span aria-live="polite">{feedback ?? label}</span>
    </button>
  );
}

async function writeToClipboard(value: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(value);
    return true;
  } catch {
    const field = document.createElement("textarea");
    field.value = value;
    field.className = "visually-hidden";
    document.body.append(field);
    field.select();
    const isDone = document.execCommand("copy");
    field.remove();
    return isDone;
  }
}

/** An id or address with a copy button. */
export function Copyable({ text }: { text: string }) {
  return (
    <span class="copyable">
      <code>{text}</code> <CopyButton text={text} />
    </span>
  );
}
