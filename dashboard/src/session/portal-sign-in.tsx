import type { ApiError } from "../api/error";
import { ErrorMessage } from "../components/query-view";

interface Props {
  /** The link's token is being tried. */
  isOpening: boolean;
  /** Why the token was rejected. */
  error: ApiError | null;
  /** Why the last session ended. */
  signOutReason: string | null;
  onRetry: () => void;
}

/** The sign-in page of a portal. It has no key field, because a portal is opened by a link only. */
export function PortalSignIn({ isOpening, error, signOutReason, onRetry }: Props) {
  return (
    <main class="sign-in">
      <div class="empty" role="status">
        {isOpening ? (
          <p>Opening…</p>
        ) : error?.isTransient ? (
          <>
            <h1>These pages cannot be opened right now</h1>
            <ErrorMessage error={error} onRetry={onRetry} />
          </>
        ) : (
          <>
            <h1>{error ? "This link does not open anything any more" : "You are signed out"}</h1>
            <p>
              {error?.message ?? signOutReason} A link to these pages lasts only for a while, and a reload ends it. Open them
              again from where you came.
            </p>
          </>
        )}
      </div>
    </main>
  );
}
