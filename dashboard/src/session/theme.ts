// The theme: light, dark, or the device's setting, and a portal's accent colour in a shade that is readable on both.
import { effect, signal } from "@preact/signals";
import { type Backgrounds, readableAccent } from "../text/colour";
import { session } from "./session";

export type Theme = "device" | "light" | "dark";

const THEME_STORAGE_KEY = "posthaste-theme";
const device = window.matchMedia("(prefers-color-scheme: dark)");

export const theme = signal<Theme>(storedTheme());
/** The theme in effect, for charts that read their colours once. */
export const shownTheme = signal<"light" | "dark">("light");

/** Reads the stored choice. In a frame of another site storage may be blocked; then the device's setting counts. */
function storedTheme(): Theme {
  try {
    const value = window.localStorage.getItem(THEME_STORAGE_KEY);
    return value === "light" || value === "dark" ? value : "device";
  } catch {
    return "device";
  }
}

export function chooseTheme(next: Theme): void {
  theme.value = next;
  try {
    if (next === "device") window.localStorage.removeItem(THEME_STORAGE_KEY);
    else window.localStorage.setItem(THEME_STORAGE_KEY, next);
  } catch {
    // The choice then lasts until the page is closed.
  }
}

export function applyTheme(): void {
  const isDeviceDark = signal(device.matches);
  device.addEventListener("change", () => (isDeviceDark.value = device.matches));
  effect(() => {
    const shown = theme.value === "device" ? (isDeviceDark.value ? "dark" : "light") : theme.value;
    const style = document.documentElement.style;
    document.documentElement.dataset["theme"] = shown;
    const accent = session.value?.theme?.accent;
    const shades = accent ? readableAccent(accent, currentBackgrounds()) : null;
    if (shades === null) {
      for (const name of ["--accent", "--on-accent", "--accent-soft"]) style.removeProperty(name);
    } else {
      style.setProperty("--accent", shades.accent);
      style.setProperty("--on-accent", "var(--surface)");
      style.setProperty("--accent-soft", shades.soft);
    }
    shownTheme.value = shown;
  });
}

/** Reads the background colours of the current theme from the style sheet. */
function currentBackgrounds(): Backgrounds {
  const style = getComputedStyle(document.documentElement);
  const ground = (name: string) => style.getPropertyValue(name).trim();
  return { surface: ground("--surface"), others: [ground("--page"), ground("--sunken")] };
}
