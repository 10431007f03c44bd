import { useQuery } from "../api/query";
import { api, dataOf } from "../api/client";
import type { EventType } from "../api/schema";
import { Action } from "../components/action";
import { Badge } from "../components/badge";
import { Empty, QueryView } from "../components/query-view";
import { Code, Json } from "../components/json";
import { Card, PropertyList, PageHead } from "../components/page";
import { LongTime } from "../components/time";
import { paths } from "../route/paths";
import { isAdmin } from "../session/session";

export function EventTypePage({ name }: { name: string }) {
  const params = { params: { path: { type: name } } };
  const query = useQuery(`event-type ${name}`, () => readEventType(name));
  const data = query.data;
  return (
    <>
      <PageHead
        title={name}
        breadcrumbs={[{ label: "Event types", href: paths.eventTypes() }]}
        aside={data && <Badge state={data.archived_at ? "archived" : "active"} />}
      >
        {data && isAdmin.value && (
          <Action
            label={data.archived_at ? "Unarchive" : "Archive"}
            done={data.archived_at ? "It can be published again." : "Archived."}
            {...(data.archived_at ? {} : { confirm: "It takes no new events; those there are go on being delivered." })}
            act={async () => {
              if (data.archived_at) await dataOf(api.POST("/v1/event-types/{type}/unarchive", params));
              else await dataOf(api.POST("/v1/event-types/{type}/archive", params));
              query.refetch();
            }}
          />
        )}
      </PageHead>
      <QueryView query={query}>{(type) => <EventTypeDetails type={type} />}</QueryView>
    </>
  );
}

/** Loads an event type. A portal link may read only the list. */
async function readEventType(name: string): Promise<EventType> {
  const result = await api.GET("/v1/event-types/{type}", { params: { path: { type: name } } });
  if (result.response.status === 403) {
    const { data } = await dataOf(api.GET("/v1/event-types", { params: { query: { limit: 250 } } }));
    const found = data.find((each) => each.name === name);
    if (found) return found;
  }
  return dataOf(Promise.resolve(result));
}

function EventTypeDetails({ type }: { type: EventType }) {
  return (
    <div class="stack">
      <Card>
        <PropertyList
          properties={[
            ["Description", type.description],
            ["Schema", type.enforce_schema ? "enforced: other data is refused" : "not enforced"],
            ["Added", <LongTime at={type.created_at} />],
            ["Changed", <LongTime at={type.updated_at} />],
            ["Archived", type.archived_at && <LongTime at={type.archived_at} />],
          ]}
        />
      </Card>
      <Card title="Sample">
        {type.sample == null ? (
          <Empty title="No sample">Those who write receivers would be glad of one.</Empty>
        ) : (
          <Json text={JSON.stringify(type.sample)} label="sample" />
        )}
      </Card>
      {type.versions.length === 0 && (
        <Card title="Versions">
          <Empty title="One version: the data as published">An endpoint can pin a version once there are some.</Empty>
        </Card>
      )}
      {[...type.versions].reverse().map((version) => (
        <Card key={version.name} title={`Version ${version.name}`}>
          <div class="stack">
            {version.description && <p>{version.description}</p>}
            {version.schema != null && <Json text={JSON.stringify(version.schema)} label={`schema of ${version.name}`} />}
            {version.function && <Code text={version.function} label={`function of ${version.name}`} />}
          </div>
        </Card>
      ))}
    </div>
  );
}
