// JSON as Python's json.dumps(…, sort_keys=True, separators=(",", ":")) writes it, numbers as given.
import { members } from "./json-text";

export function sortedJson(text: string): string {
  const value = text.trim();
  if (value.startsWith("{")) {
    const last = new Map(members(value) ?? []);
    const names = [...last.keys()].sort(byCodePoint);
    return `{${names.map((name) => `${escaped(name)}:${sortedJson(last.get(name) ?? "null")}`).join(",")}}`;
  }
  if (value.startsWith("[")) return `[${items(value).map(sortedJson).join(",")}]`;
  if (value.startsWith('"')) return escaped(JSON.parse(value) as string);
  return value;
}

/** Compares by code points, whereas `<` compares UTF-16 units. */
function byCodePoint(one: string, other: string): number {
  const [a, b] = [Array.from(one), Array.from(other)];
  for (let at = 0; at < Math.min(a.length, b.length); at += 1) {
    const difference = (a[at]?.codePointAt(0) ?? 0) - (b[at]?.codePointAt(0) ?? 0);
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

function escaped(text: string): string {
  return JSON.stringify(text).replace(/[\u007f-\uffff]/g, (unit) =>
    unit === "\u007f" ? unit : `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** Returns the items of an array, each as written. */
function items(array: string): string[] {
  const inside = array.slice(1, -1);
  if (inside.trim() === "") return [];
  const found: string[] = [];
  let [depth, start, isText] = [0, 0, false];
  for (let at = 0; at < inside.length; at += 1) {
    const char = inside[at];
    if (isText) {
      if (char === "\\") at += 1;
      else if (char === '"') isText = false;
    } else if (char === '"') isText = true;
    else if (char === "{" || char === "[") depth += 1;
    else if (char === "}" || char === "]") depth -= 1;
    else if (char === "," && depth === 0) {
      found.push(inside.slice(start, at));
      start = at + 1;
    }
  }
  return [...found, inside.slice(start)];
}
