// Parses headers typed by a user: one `Name: value` per line.

export function parseHeaders(text: string): { headers: Record<string, string>; wrong: string | null } {
  const headers: Record<string, string> = {};
  for (const line of text.split("\n").filter((each) => each.trim() !== "")) {
    const match = /^\s*([A-Za-z0-9!#$%&'*+.^_`|~-]+)\s*:\s*(.*?)\s*$/.exec(line);
    if (match?.[1] === undefined) return { headers: {}, wrong: `Not a header: ${line.trim()}` };
    headers[match[1]] = match[2] ?? "";
  }
  return { headers, wrong: null };
}
