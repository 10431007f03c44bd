// Texts of empty lists. They suggest only steps that the session's permissions allow.

export interface Permissions {
  /** May change endpoints and deliveries. */
  change: boolean;
  /** May publish events, with the page's button or through the API. */
  publish: boolean;
}

export function noEndpointsText(permissions: Permissions): string {
  const what = "An endpoint is an address that events are sent to.";
  return permissions.change
    ? `${what} Add one, give its secret to the receiver, and send it a test.`
    : `${what} They are added by whoever may change things here; you may look.`;
}

export function noEventsText(permissions: Permissions): string {
  return permissions.publish ? "Publish one here, or with a program:" : "They appear here as they are published.";
}

export function noDeliveriesText(permissions: Permissions): string {
  if (permissions.publish) return "Publish an event, or send an endpoint a test.";
  if (permissions.change) return "Send an endpoint a test; events appear here as they come.";
  return "They appear here as events come.";
}

export function nothingSentText(permissions: Permissions): string {
  return permissions.change
    ? "Send a test event to see a delivery from end to end."
    : "Deliveries appear here as events come that this endpoint wants.";
}
