// Which page an address is for, and the names in it.

/** `/apps/:app/events` against a path: the decoded names, or null. */
export function matchPath(pattern: string, path: string): Record<string, string> | null {
  const wanted = pattern.split("/");
  const given = path.replace(/(.)\/$/, "$1").split("/");
  if (wanted.length !== given.length) return null;
  const names: Record<string, string> = {};
  for (const [at, piece] of wanted.entries()) {
    const value = given[at] ?? "";
    if (piece.startsWith(":")) {
      const decoded = decodedOrNull(value);
      if (decoded === null || decoded === "") return null;
      names[piece.slice(1)] = decoded;
    } else if (piece !== value) return null;
  }
  return names;
}

function decodedOrNull(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}
