import { Empty } from "../components/query-view";
import { paths } from "../route/paths";
import type { Permissions } from "../text/empty-lists";

/** The first steps, shown for an app without endpoints. */
export function FirstSteps({ app, permissions }: { app: string; permissions: Permissions }) {
  if (!permissions.change) {
    return <Empty title="Nothing goes out yet">No endpoint was added. Whoever may change things here adds the first.</Empty>;
  }
  return (
    <Empty title="Nothing goes out yet">
      First <a href={paths.endpoints(app)}>add an endpoint</a>: the address of a receiver, and which event types it wants.{" "}
      {permissions.publish ? (
        <>
          Then publish an event with the button above. <code>posthaste listen --app {app}</code> makes an endpoint that leads to
          your own machine.
        </>
      ) : (
        "Then send it a test."
      )}
    </Empty>
  );
}
