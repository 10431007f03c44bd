// Maps paths to pages.
import type { ComponentChild } from "preact";
import { Empty } from "../components/query-view";
import { PageHead } from "../components/page";
import { matchPath } from "../route/match";
import { isAdmin } from "../session/session";
import { AppPage } from "./app";
import { AppSettings } from "./app-settings";
import { Apps } from "./apps";
import { Audit } from "./audit";
import { ContractPage } from "./contract";
import { Contracts } from "./contracts";
import { DeadLetters } from "./dead-letters";
import { Deliveries } from "./deliveries";
import { DeliveryPage } from "./delivery/delivery";
import { EndpointPage } from "./endpoint/endpoint";
import { Endpoints } from "./endpoints";
import { EventPage } from "./event";
import { EventTypePage } from "./event-type";
import { EventTypes } from "./event-types";
import { Events } from "./events";
import { Keys } from "./keys";
import { Notices } from "./notices";
import { Overview } from "./overview";
import { PortalLinks } from "./portal-links";
import { ReplayPage } from "./replay";
import { Replays } from "./replays";
import { SystemPage } from "./system";

interface Route {
  pattern: string;
  needsAdmin?: boolean;
  page: (names: Record<string, string>) => ComponentChild;
}

const name = (names: Record<string, string>, which: string) => names[which] ?? "";

const ROUTES: Route[] = [
  { pattern: "/", needsAdmin: true, page: () => <Overview /> },
  { pattern: "/apps", needsAdmin: true, page: () => <Apps /> },
  { pattern: "/contracts", page: () => <Contracts /> },
  { pattern: "/contracts/:contract", page: (n) => <ContractPage name={name(n, "contract")} /> },
  { pattern: "/event-types", page: () => <EventTypes /> },
  { pattern: "/event-types/:type", page: (n) => <EventTypePage name={name(n, "type")} /> },
  { pattern: "/keys", needsAdmin: true, page: () => <Keys /> },
  { pattern: "/audit", needsAdmin: true, page: () => <Audit app={null} /> },
  { pattern: "/notices", needsAdmin: true, page: () => <Notices app={null} /> },
  { pattern: "/system", needsAdmin: true, page: () => <SystemPage /> },
  { pattern: "/apps/:app", page: (n) => <AppPage app={name(n, "app")} /> },
  { pattern: "/apps/:app/settings", needsAdmin: true, page: (n) => <AppSettings app={name(n, "app")} /> },
  { pattern: "/apps/:app/audit", page: (n) => <Audit app={name(n, "app")} /> },
  { pattern: "/apps/:app/notices", page: (n) => <Notices app={name(n, "app")} /> },
  { pattern: "/apps/:app/portal", needsAdmin: true, page: (n) => <PortalLinks app={name(n, "app")} /> },
  { pattern: "/apps/:app/endpoints", page: (n) => <Endpoints app={name(n, "app")} /> },
  {
    pattern: "/apps/:app/endpoints/:endpoint",
    page: (n) => <EndpointPage app={name(n, "app")} id={name(n, "endpoint")} tab="" />,
  },
  {
    pattern: "/apps/:app/endpoints/:endpoint/:tab",
    page: (n) => <EndpointPage app={name(n, "app")} id={name(n, "endpoint")} tab={name(n, "tab")} />,
  },
  { pattern: "/apps/:app/events", page: (n) => <Events app={name(n, "app")} /> },
  { pattern: "/apps/:app/events/:event", page: (n) => <EventPage app={name(n, "app")} id={name(n, "event")} /> },
  { pattern: "/apps/:app/deliveries", page: (n) => <Deliveries app={name(n, "app")} /> },
  { pattern: "/apps/:app/deliveries/:delivery", page: (n) => <DeliveryPage app={name(n, "app")} id={name(n, "delivery")} /> },
  { pattern: "/apps/:app/dead-letters", page: (n) => <DeadLetters app={name(n, "app")} /> },
  { pattern: "/apps/:app/replays", page: (n) => <Replays app={name(n, "app")} /> },
  { pattern: "/apps/:app/replays/:replay", page: (n) => <ReplayPage app={name(n, "app")} id={name(n, "replay")} /> },
];

/** Returns a path's page, its app, and a key that changes when the page shows another record. */
export function pageAt(path: string): { page: ComponentChild; app: string | null; key: string } {
  for (const { pattern, needsAdmin, page } of ROUTES) {
    const names = matchPath(pattern, path);
    if (names === null || (needsAdmin && !isAdmin.value)) continue;
    const { tab: _, ...parts } = names;
    return {
      page: page(names),
      app: names["app"] ?? null,
      key: `${pattern.replace("/:tab", "")} ${Object.values(parts).join(" ")}`,
    };
  }
  return { page: <NoPage />, app: null, key: "none" };
}

function NoPage() {
  return (
    <>
      <PageHead title="There is no such page" />
      <Empty title="Nothing is here">The menu leads to all there is; the search box takes any id.</Empty>
    </>
  );
}
