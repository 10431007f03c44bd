// Counts, shares and sizes in words.

const WHOLE = new Intl.NumberFormat(undefined);

export function count(value: number): string {
  return WHOLE.format(value);
}

/** `1 delivery`, `2 deliveries`. */
export function counted(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** `99.97 %`. Rounded down: what is not all of it never reads as 100 %. */
export function share(value: number | null | undefined): string {
  if (value == null) return "–";
  if (value >= 1) return "100 %";
  return `${(Math.floor(value * 10_000) / 100).toFixed(value > 0.99 ? 2 : 1)} %`;
}

const SIZES = ["B", "KiB", "MiB", "GiB", "TiB"];

export function bytes(value: number): string {
  let size = value;
  let unit = 0;
  while (size >= 1024 && unit < SIZES.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${SIZES[unit]}`;
}
