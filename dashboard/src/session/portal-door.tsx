import type { Refusal } from "../api/problem";
import { ErrorMessage } from "../components/query-view";

interface Props {
  /** The link's token is being tried. */
  isOpening: boolean;
  /** Why the token was not taken. */
  refusal: Refusal | null;
  /** Why the last session ended. */
  farewell: string | null;
  again: () => void;
}

/** What a portal's address shows while nobody is signed in. There is no key to type: one comes by a link, or not at all. */
export function PortalDoor({ isOpening, refusal, farewell, again }: Props) {
  return (
    <main class="sign-in">
      <div class="empty" role="status">
        {isOpening ? (
          <p>Opening…</p>
        ) : refusal?.isPassing ? (
          <>
            <h1>These pages cannot be opened right now</h1>
            <ErrorMessage refusal={refusal} again={again} />
          </>
        ) : (
          <>
            <h1>{refusal ? "This link does not open anything any more" : "You are signed out"}</h1>
            <p>
              {refusal?.message ?? farewell} A link to these pages lasts only for a while, and a reload ends it. Open them again
              from where you came.
            </p>
          </>
        )}
      </div>
    </main>
  );
}
