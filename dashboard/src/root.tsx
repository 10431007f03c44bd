import { useEffect, useRef } from "preact/hooks";
import { follow } from "./api/live";
import { Toasts } from "./components/toast";
import { currentPath, go } from "./route/router";
import { paths } from "./route/paths";
import { session } from "./session/session";
import { SignIn } from "./session/sign-in";
import { Shell } from "./shell/shell";
import { pageAt } from "./pages/routes";

export function Root({ firstKey }: { firstKey: string | null }) {
  // The key of the address is tried once: whoever was signed out stays so.
  const untried = useRef(firstKey);
  if (session.value !== null) untried.current = null;
  return (
    <>
      {session.value === null ? <SignIn firstKey={untried.current} /> : <Inside />}
      <Toasts />
    </>
  );
}

function Inside() {
  const own = session.value?.app?.id ?? null;
  const path = currentPath.value;
  // Whoever has one app only starts there.
  useEffect(() => {
    if (own !== null && (path === "/" || path === "/apps")) go(paths.app(own), { replace: true });
  }, [own, path]);
  const { page, app, key } = pageAt(path);
  // A key of one app may follow nothing else.
  const followed = app ?? own;
  useEffect(() => follow(followed), [followed]);
  return (
    <Shell app={app}>
      <div key={key}>{page}</div>
    </Shell>
  );
}
