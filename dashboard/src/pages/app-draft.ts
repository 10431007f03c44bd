// The draft of an app's settings, and the changes in it that are sent.
import type { App } from "../api/schema";

export interface AppDraft {
  name: string;
  email: string;
  contract: string;
  isLive: boolean;
  events: string;
  bytes: string;
}

export function appDraftOf(app: App): AppDraft {
  return {
    name: app.name,
    email: app.contact_email ?? "",
    contract: app.contract ?? "",
    isLive: app.livemode,
    events: app.quota?.events_per_second?.toString() ?? "",
    bytes: app.quota?.bytes_per_second?.toString() ?? "",
  };
}

/** Returns only the changed fields, so that concurrent changes of other fields stay. A quota is replaced as a whole. */
export function appChangesOf(before: AppDraft, after: AppDraft) {
  const isChanged = (name: keyof AppDraft) => before[name] !== after[name];
  const quota = {
    ...(after.events ? { events_per_second: Number(after.events) } : {}),
    ...(after.bytes ? { bytes_per_second: Number(after.bytes) } : {}),
  };
  return {
    ...(isChanged("name") ? { name: after.name.trim() } : {}),
    ...(isChanged("email") ? { contact_email: after.email.trim() || null } : {}),
    ...(isChanged("contract") ? { contract: after.contract || null } : {}),
    ...(isChanged("isLive") ? { livemode: after.isLive } : {}),
    ...(isChanged("events") || isChanged("bytes") ? { quota: Object.keys(quota).length > 0 ? quota : null } : {}),
  };
}
