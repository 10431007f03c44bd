// A portal's accent colour, made readable: moved towards black or white until text in it stands out from the page.

type Rgb = [number, number, number];

const HEX = /^#([0-9a-f]{6})$/i;
const READABLE = 4.5;

export function parseHex(text: string): Rgb | null {
  const digits = HEX.exec(text)?.[1];
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

/** From 1 to 21, as WCAG defines it. */
export function contrast(one: Rgb, other: Rgb): number {
  const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b) as [number, number];
  return (light + 0.05) / (dark + 0.05);
}

/** The nearest shade of a colour that is readable on `page`; null if it is no colour. */
export function readableOn(hex: string, page: string): string | null {
  const [colour, ground] = [parseHex(hex), parseHex(page)];
  if (colour === null || ground === null) return null;
  const target = luminance(ground) > 0.4 ? 0 : 255;
  for (let step = 0; step <= 20; step += 1) {
    const shade = colour.map((value) => Math.round(value + ((target - value) * step) / 20)) as Rgb;
    if (contrast(shade, ground) >= READABLE) return toHex(shade);
  }
  return toHex([target, target, target]);
}

function toHex(colour: Rgb): string {
  return `#${colour.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}
