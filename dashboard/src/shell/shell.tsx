// The frame of every page: navigation, search, connection status.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { currentPath } from "../route/router";
import { session, signOut } from "../session/session";
import { type Theme, chooseTheme, theme } from "../session/theme";
import { ConnectionIndicator, ConnectionBanner } from "./connection-status";
import { Navigation } from "./navigation";
import { Search } from "./search";

const NEXT_THEME: Record<Theme, Theme> = { device: "light", light: "dark", dark: "device" };
const THEME_NAMES: Record<Theme, string> = { device: "Auto", light: "Light", dark: "Dark" };

export function Shell({ app, children }: { app: string | null; children: ComponentChildren }) {
  const [isOpen, setOpen] = useState(false);
  const main = useRef<HTMLElement>(null);
  const path = currentPath.value;
  const first = useRef(true);
  useEffect(() => {
    setOpen(false);
    // Moves the focus, so that screen readers continue at the start of the new page.
    if (first.current) first.current = false;
    else main.current?.focus({ preventScroll: true });
  }, [path]);
  useEffect(() => {
    const closeOnEscape = (event: KeyboardEvent) => event.key === "Escape" && setOpen(false);
    document.addEventListener("keydown", closeOnEscape);
    return () => document.removeEventListener("keydown", closeOnEscape);
  }, []);
  const portalTheme = session.value?.theme;
  return (
    <div class={isOpen ? "shell is-open" : "shell"}>
      <button type="button" class="skip" onClick={() => main.current?.focus()}>
        Skip to the page
      </button>
      <aside class="side" aria-label="Pages">
        <a class="brand" href="/">
          <img src={portalTheme?.logo_url ?? "/icon.svg"} alt="" /> {portalTheme?.name ?? "Posthaste"}
        </a>
        <Navigation app={app} />
      </aside>
      {isOpen && <button type="button" class="backdrop" aria-label="Close the menu" onClick={() => setOpen(false)} />}
      <div class="body">
        <header class="top">
          <button type="button" class="menu" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            Menu
          </button>
          <Search app={app} />
          <div class="end">
            <ConnectionIndicator />
            <button
              type="button"
              class="small"
              title="Light, dark, or as the device says"
              onClick={() => chooseTheme(NEXT_THEME[theme.value])}
            >
              {THEME_NAMES[theme.value]}
            </button>
            <button type="button" class="small" onClick={() => signOut(null)}>
              Sign out
            </button>
          </div>
        </header>
        <ConnectionBanner />
        <main ref={main} tabIndex={-1}>
          {children}
        </main>
      </div>
    </div>
  );
}
