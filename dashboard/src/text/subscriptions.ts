// Which event types a subscription takes, as the API matches them: exact ones, `prefix.*`, or `*`.

/** Of what is said about endpoints and deliveries. Only who names these types gets them: `*` is every type of the product's. */
const OPERATIONAL_PREFIX = "posthaste.";

export function matchesSubscription(patterns: readonly string[], type: string): boolean {
  return patterns.some((pattern) => {
    if (pattern === "*") return !type.startsWith(OPERATIONAL_PREFIX);
    if (pattern.endsWith(".*")) return type.startsWith(pattern.slice(0, -1));
    return pattern === type;
  });
}

const SUBSCRIPTION_PATTERN = /^(\*|[A-Za-z0-9_.:-]{1,126}\.\*|[A-Za-z0-9_.:-]{1,128})$/;

/** What a person typed: patterns separated by spaces, commas or lines. Empty means every type. */
export function parsePatterns(text: string): { patterns: string[]; wrong: string[] } {
  const given = [...new Set(text.split(/[\s,]+/).filter((each) => each !== ""))];
  return {
    patterns: given.length > 0 ? given.filter((each) => SUBSCRIPTION_PATTERN.test(each)) : ["*"],
    wrong: given.filter((each) => !SUBSCRIPTION_PATTERN.test(each)),
  };
}
