import { useEffect, useState } from "preact/hooks";
import { type ApiError, toApiError } from "../api/error";
import { ErrorMessage } from "../components/query-view";
import { Field } from "../components/field";
import { isPortalAddress } from "../route/router";
import { PortalSignIn } from "./portal-sign-in";
import { signOutReason, signIn } from "./session";

export function SignIn({ initialKey }: { initialKey: string | null }) {
  const [key, setKey] = useState(initialKey ?? "");
  const [error, setError] = useState<ApiError | null>(null);
  const [isTrying, setTrying] = useState(initialKey !== null);

  const submit = async () => {
    setTrying(true);
    setError(null);
    try {
      await signIn(key.trim());
    } catch (error) {
      setError(toApiError(error));
      setTrying(false);
    }
  };
  useEffect(() => {
    document.title = isPortalAddress ? "Signed out" : "Sign in · Posthaste";
    if (initialKey !== null) void submit();
  }, []);

  if (isPortalAddress) {
    return <PortalSignIn isOpening={isTrying} error={error} signOutReason={signOutReason.value} onRetry={() => void submit()} />;
  }
  return (
    <main class="sign-in">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <div class="brand">
          <img src="/icon.svg" alt="" /> Posthaste
        </div>
        <h1>Sign in</h1>
        {signOutReason.value && (
          <p class="note warn" role="status">
            {signOutReason.value}
          </p>
        )}
        <Field
          label="Key"
          type="password"
          value={key}
          onInput={setKey}
          isRequired
          isCode
          hint="An admin key, or a key of one app. It stays in this page’s memory: a reload asks for it again."
        />
        {error && <ErrorMessage error={error} />}
        <button type="submit" class="primary" disabled={isTrying || key.trim() === ""}>
          {isTrying ? "Signing in…" : "Sign in"}
        </button>
        <p class="muted">
          <code>posthaste dev</code> prints an admin key at its start. Other servers have it in their settings, or in the file
          beside the store.
        </p>
      </form>
    </main>
  );
}
