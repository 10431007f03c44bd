// Formats counts, percentages and sizes.

const INTEGER_FORMAT = new Intl.NumberFormat(undefined);

export function formatCount(value: number): string {
  return INTEGER_FORMAT.format(value);
}

/** Formats a count with its noun: `1 delivery`, `2 deliveries`. */
export function countOf(value: number, one: string, many = `${one}s`): string {
  return `${formatCount(value)} ${value === 1 ? one : many}`;
}

/** Formats a share: `99.97 %`. Rounds down, so that only a complete share reads 100 %. */
export function formatPercent(value: number | null | undefined): string {
  if (value == null) return "–";
  if (value >= 1) return "100 %";
  return `${(Math.floor(value * 10_000) / 100).toFixed(value > 0.99 ? 2 : 1)} %`;
}

const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function formatBytes(value: number): string {
  let size = value;
  let unit = 0;
  while (size >= 1024 && unit < BYTE_UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${BYTE_UNITS[unit]}`;
}
