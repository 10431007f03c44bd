// Matches event types against subscriptions as the API does: exact types, `prefix.*`, or `*`.

/** Prefix of the types that report on endpoints and deliveries. They must be subscribed to by name, because `*` means only the
 *  product's own types. */
const OPERATIONAL_PREFIX = "posthaste.";

export function matchesSubscription(patterns: readonly string[], type: string): boolean {
  return patterns.some((pattern) => {
    if (pattern === "*") return !type.startsWith(OPERATIONAL_PREFIX);
    if (pattern.endsWith(".*")) return type.startsWith(pattern.slice(0, -1));
    return pattern === type;
  });
}

const SUBSCRIPTION_PATTERN = /^(\*|[A-Za-z0-9_.:-]{1,126}\.\*|[A-Za-z0-9_.:-]{1,128})$/;

/** Parses patterns typed by a user, separated by spaces, commas or line breaks. An empty text means every type. */
export function parsePatterns(text: string): { patterns: string[]; wrong: string[] } {
  const typed = [...new Set(text.split(/[\s,]+/).filter((each) => each !== ""))];
  return {
    patterns: typed.length > 0 ? typed.filter((each) => SUBSCRIPTION_PATTERN.test(each)) : ["*"],
    wrong: typed.filter((each) => !SUBSCRIPTION_PATTERN.test(each)),
  };
}
