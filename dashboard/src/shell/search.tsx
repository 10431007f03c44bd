import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { toApiError } from "../api/error";
import { navigate } from "../route/router";
import { findById } from "./find-by-id";

/** The search box for ids. The key `/` focuses it. */
export function Search({ app }: { app: string | null }) {
  const [typed, setTyped] = useState("");
  const [message, setMessage] = useState<string | null>(null);
  const field = useRef<HTMLInputElement>(null);

  // A layout effect, because an effect after painting would miss a key that is pressed right after the box appears.
  useLayoutEffect(() => {
    const focus = (event: KeyboardEvent) => {
      const isTyping = event.target instanceof Element && event.target.closest("input, textarea, select, dialog");
      if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      field.current?.focus();
    };
    document.addEventListener("keydown", focus);
    return () => document.removeEventListener("keydown", focus);
  }, []);

  const search = async () => {
    const id = (field.current?.value ?? typed).trim();
    if (id === "") return;
    setMessage("Looking…");
    try {
      const path = await findById(id, app);
      if (path === null) setMessage("Nothing that this key can see has this id.");
      else {
        setMessage(null);
        setTyped("");
        navigate(path);
      }
    } catch (error) {
      setMessage(toApiError(error).message);
    }
  };

  return (
    <form
      class="search"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        void search();
      }}
    >
      <input
        ref={field}
        type="search"
        value={typed}
        aria-label="Find by id"
        placeholder="Find any id"
        title="Takes any id. The key / leads here."
        spellcheck={false}
        autocomplete="off"
        onInput={(event) => {
          setTyped(event.currentTarget.value);
          setMessage(null);
        }}
        onBlur={() => setMessage(null)}
      />
      {message && (
        <div class="about" role="status">
          {message}
        </div>
      )}
    </form>
  );
}
