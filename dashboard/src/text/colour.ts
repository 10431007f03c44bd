// Makes a portal's accent colour readable: mixes it with black or white until its contrast with every background suffices.

type Rgb = [number, number, number];

const BLACK: Rgb = [0, 0, 0];
const WHITE: Rgb = [255, 255, 255];
const MIX_STEPS = 40;
const HEX_COLOUR = /^#([0-9a-f]{6})$/i;
/** The short form that the CSS minifier makes of colours such as `#ffffff`. */
const SHORT_HEX_COLOUR = /^#([0-9a-f])([0-9a-f])([0-9a-f])$/i;
const CONTRAST_MIN = 4.5;
/** Share of the accent in its soft background. */
const SOFT_SHARE = 0.12;

export interface Backgrounds {
  /** Background of cards, and colour of text on the accent. */
  surface: string;
  others: string[];
}

export function parseHex(text: string): Rgb | null {
  const digits = HEX_COLOUR.exec(text)?.[1];
  if (digits === undefined) return null;
  return [0, 2, 4].map((at) => Number.parseInt(digits.slice(at, at + 2), 16)) as Rgb;
}

function luminance(colour: Rgb): number {
  const [r, g, b] = colour.map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  }) as Rgb;
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** Returns the WCAG contrast ratio, from 1 to 21. */
export function contrast(one: Rgb, other: Rgb): number {
  const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b) as [number, number];
  return (light + 0.05) / (dark + 0.05);
}

/** Returns the nearest shade that is readable on all backgrounds and on its own soft one. Null if a colour is invalid. */
export function readableAccent(hex: string, grounds: Backgrounds): { accent: string; soft: string } | null {
  const colour = parseHex(hex);
  const all = [grounds.surface, ...grounds.others].map((each) => parseHex(each.replace(SHORT_HEX_COLOUR, "#$1$1$2$2$3$3")));
  const known = all.filter((each) => each !== null);
  const surface = known[0];
  if (colour === null || surface === undefined || known.length < all.length) return null;
  const target = luminance(surface) > 0.4 ? BLACK : WHITE;
  for (let step = 0; ; step += 1) {
    const accent = mixed(colour, target, step / MIX_STEPS);
    const soft = mixed(surface, accent, SOFT_SHARE);
    if (step === MIX_STEPS || [soft, ...known].every((ground) => contrast(accent, ground) >= CONTRAST_MIN)) {
      return { accent: toHex(accent), soft: toHex(soft) };
    }
  }
}

function mixed(one: Rgb, other: Rgb, part: number): Rgb {
  return one.map((value, at) => Math.round(value + (other[at]! - value) * part)) as Rgb;
}

function toHex(colour: Rgb): string {
  return `#${colour.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}
