import { useEffect, useRef } from "preact/hooks";
import { followUpdates } from "./api/live-updates";
import { Toasts } from "./components/toast";
import { currentPath, navigate } from "./route/router";
import { paths } from "./route/paths";
import { session } from "./session/session";
import { SignIn } from "./session/sign-in";
import { Shell } from "./shell/shell";
import { pageAt } from "./pages/routes";

export function Root({ initialKey }: { initialKey: string | null }) {
  // The key of the address is tried only once. After a sign-out it is not used again.
  const untriedKey = useRef(initialKey);
  if (session.value !== null) untriedKey.current = null;
  return (
    <>
      {session.value === null ? <SignIn initialKey={untriedKey.current} /> : <SignedIn />}
      <Toasts />
    </>
  );
}

function SignedIn() {
  const own = session.value?.app?.id ?? null;
  const path = currentPath.value;
  // A key of one app starts on that app's page.
  useEffect(() => {
    if (own !== null && (path === "/" || path === "/apps")) navigate(paths.app(own), { replace: true });
  }, [own, path]);
  const { page, app, key } = pageAt(path);
  // A key of one app may follow only that app's updates.
  const streamedApp = app ?? own;
  useEffect(() => followUpdates(streamedApp), [streamedApp]);
  return (
    <Shell app={app}>
      <div key={key}>{page}</div>
    </Shell>
  );
}
