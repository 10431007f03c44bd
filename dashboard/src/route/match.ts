// Matches paths against patterns with named parts.

/** Matches a path against a pattern such as `/apps/:app/events`. Returns the decoded parts, or null. */
export function matchPath(pattern: string, path: string): Record<string, string> | null {
  const patternParts = pattern.split("/");
  const pathParts = path.replace(/(.)\/$/, "$1").split("/");
  if (patternParts.length !== pathParts.length) return null;
  const names: Record<string, string> = {};
  for (const [at, piece] of patternParts.entries()) {
    const value = pathParts[at] ?? "";
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
