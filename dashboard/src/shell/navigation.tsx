import { api, dataOf } from "../api/client";
import { useQuery } from "../api/query";
import { navigate, currentPath } from "../route/router";
import { paths } from "../route/paths";
import { isAdmin, isPortal, mayChange, session } from "../session/session";

type Entry = { label: string; href: string };

export function Navigation({ app }: { app: string | null }) {
  const own = session.value?.app?.id ?? null;
  const shown = app ?? own;
  return (
    <>
      {isAdmin.value && <Group label="Operator" entries={operatorEntries()} />}
      {isAdmin.value && <AppSelect app={app} />}
      {shown !== null && <Group label={isAdmin.value ? null : "Your webhooks"} entries={appEntries(shown)} />}
      {!isAdmin.value && (mayChange.value || isPortal.value) && <Group label="Reference" entries={referenceEntries()} />}
    </>
  );
}

function operatorEntries(): Entry[] {
  return [
    { label: "Overview", href: paths.overview() },
    { label: "Apps", href: paths.apps() },
    ...referenceEntries(),
    { label: "Keys", href: paths.keys() },
    { label: "Notices", href: paths.notices() },
    { label: "Audit", href: paths.audit() },
    { label: "System", href: paths.system() },
  ];
}

function referenceEntries(): Entry[] {
  return [
    { label: "Event types", href: paths.eventTypes() },
    ...(isPortal.value ? [] : [{ label: "Contracts", href: paths.contracts() }]),
  ];
}

function appEntries(app: string): Entry[] {
  const entries = [
    { label: "App", href: paths.app(app) },
    { label: "Endpoints", href: paths.endpoints(app) },
    { label: "Events", href: paths.events(app) },
    { label: "Deliveries", href: paths.deliveries(app) },
    { label: "Dead letters", href: paths.deadLetters(app) },
    { label: "Replays", href: paths.replays(app) },
  ];
  entries.push({ label: "Notices", href: paths.appNotices(app) });
  if (!isPortal.value) entries.push({ label: "Changes", href: paths.appAudit(app) });
  if (isAdmin.value)
    entries.push({ label: "Portal links", href: paths.appLinks(app) }, { label: "Settings", href: paths.appSettings(app) });
  return entries;
}

function Group({ label, entries }: { label: string | null; entries: Entry[] }) {
  const path = currentPath.value;
  const isHere = ({ href }: Entry) => path === href || (isDeep(href) && path.startsWith(`${href}/`));
  return (
    <nav class="nav" aria-label={label ?? "App"}>
      {label && <h2>{label}</h2>}
      {entries.map((entry) => (
        <a key={entry.href} href={entry.href} aria-current={isHere(entry) ? "page" : undefined}>
          {entry.label}
        </a>
      ))}
    </nav>
  );
}

/** Whether an entry is also current on the pages below it. The overview, the app list and an app's own page are not. */
function isDeep(href: string): boolean {
  return href !== "/" && href !== "/apps" && !/^\/apps\/[^/]+$/.test(href);
}

function AppSelect({ app }: { app: string | null }) {
  const query = useQuery("apps", () => dataOf(api.GET("/v1/apps", { params: { query: { limit: 250 } } })), ["apps"]);
  const apps = query.data?.data ?? [];
  const isListed = app === null || apps.some((each) => each.id === app);
  return (
    <div class="nav">
      <h2>
        <label for="app-choice">App</label>
      </h2>
      <select
        id="app-choice"
        value={app ?? ""}
        onChange={(event) => {
          const id = event.currentTarget.value;
          navigate(id === "" ? paths.apps() : paths.app(id));
        }}
      >
        <option value="" selected={app === null}>
          Choose an app…
        </option>
        {!isListed && <option value={app}>{app}</option>}
        {apps.map((each) => (
          <option key={each.id} value={each.id} selected={each.id === app}>
            {each.name}
          </option>
        ))}
      </select>
    </div>
  );
}
