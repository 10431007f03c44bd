// Works on JSON as text. Payloads are shown as published, so numbers are never converted to JavaScript numbers.

const STRING = /"(?:[^"\\]|\\.)*"/y;
const SCALAR = /[^\s,:[\]{}"]+/y;
const SPACE = /\s*/y;

type Token = { kind: "open" | "close" | "comma" | "colon" | "value"; text: string; at: number };

function* tokens(text: string): Generator<Token> {
  let at = 0;
  const take = (pattern: RegExp): string | null => {
    pattern.lastIndex = at;
    const found = pattern.exec(text)?.[0] ?? null;
    return found;
  };
  for (;;) {
    at += take(SPACE)?.length ?? 0;
    const char = text[at];
    if (char === undefined) return;
    const start = at;
    if (char === "{" || char === "[") yield { kind: "open", text: char, at: at++ };
    else if (char === "}" || char === "]") yield { kind: "close", text: char, at: at++ };
    else if (char === ",") yield { kind: "comma", text: char, at: at++ };
    else if (char === ":") yield { kind: "colon", text: char, at: at++ };
    else {
      const value = char === '"' ? take(STRING) : take(SCALAR);
      if (value === null) throw new SyntaxError(`not JSON at ${at}`);
      at += value.length;
      yield { kind: "value", text: value, at: start };
    }
  }
}

/** Indents JSON by two spaces per level. Strings and numbers stay as written. */
export function pretty(text: string): string {
  let out = "";
  let depth = 0;
  let before: Token | null = null;
  const line = () => `\n${"  ".repeat(depth)}`;
  for (const token of tokens(text)) {
    const isFirst = before?.kind === "open";
    if (token.kind === "close") {
      depth -= 1;
      out += isFirst ? token.text : line() + token.text;
    } else {
      if (isFirst) out += line();
      out += token.kind === "colon" ? ": " : token.text;
      if (token.kind === "open") depth += 1;
      if (token.kind === "comma") out += line();
    }
    before = token;
  }
  return out;
}

/** Returns an object's members: names decoded, values as written. Null if the text is no object. */
export function members(text: string): [string, string][] | null {
  const found: [string, string][] = [];
  let depth = 0;
  let name: string | null = null;
  let start = -1;
  let end = -1;
  const finish = () => {
    if (name !== null && start >= 0) found.push([name, text.slice(start, end)]);
    name = null;
    start = -1;
  };
  for (const token of tokens(text)) {
    if (depth === 0 && !(token.kind === "open" && token.text === "{")) return null;
    if (token.kind === "close") depth -= 1;
    if (depth === 1 && name === null && token.kind === "value") name = JSON.parse(token.text) as string;
    else if (depth === 1 && token.kind === "comma") finish();
    else if (depth >= 1 && name !== null && !(depth === 1 && token.kind === "colon" && start < 0)) {
      if (start < 0) start = token.at;
      end = token.at + token.text.length;
    }
    if (token.kind === "open") depth += 1;
    if (depth === 0) break;
  }
  finish();
  return found;
}

export function member(text: string, name: string): string | null {
  return members(text)?.findLast(([each]) => each === name)?.[1] ?? null;
}
