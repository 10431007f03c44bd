import { useState } from "preact/hooks";
import { api, dataOf } from "../api/client";
import { usePagedList } from "../api/paged-list";
import type { EventType } from "../api/schema";
import { Badge } from "../components/badge";
import { Dialog } from "../components/dialog";
import { Empty } from "../components/query-view";
import { Checkbox, Field } from "../components/field";
import { PagedTable } from "../components/paged-table";
import { PageHead } from "../components/page";
import type { Column } from "../components/table";
import { Time } from "../components/time";
import { paths } from "../route/paths";
import { pickQuery } from "../route/query-string";
import { currentQuery, setFilters, navigate } from "../route/router";
import { isAdmin } from "../session/session";
import { jsonProblem } from "./publish";

export function EventTypes() {
  const isArchivedToo = pickQuery(currentQuery.value, ["archived"]).archived === "true";
  const [isOpen, setOpen] = useState(false);
  const list = usePagedList(
    `event-types ${isArchivedToo}`,
    (cursor) =>
      dataOf(
        api.GET("/v1/event-types", {
          params: { query: { limit: 100, ...(isArchivedToo ? { archived: true } : {}), ...(cursor ? { cursor } : {}) } },
        }),
      ),
    (row) => row.name,
  );
  return (
    <>
      <PageHead title="Event types">
        {isAdmin.value && (
          <button type="button" class="primary" onClick={() => setOpen(true)}>
            Add an event type
          </button>
        )}
      </PageHead>
      <div class="filters">
        <Checkbox
          label="Archived ones too"
          isOn={isArchivedToo}
          onChange={(isOn) => setFilters({ archived: isOn ? "true" : null })}
        />
      </div>
      <PagedTable
        caption="Event types"
        list={list}
        columns={EVENT_TYPE_COLUMNS}
        idOf={(row) => row.name}
        hrefOf={(row) => paths.eventType(row.name)}
        empty={
          <Empty title="The catalogue is empty">
            It says which events there are, with samples, schemas and versions. Types that are not in it can be published too,
            unless the setting
            <code> unknown_event_types</code> says otherwise.
          </Empty>
        }
      />
      {isOpen && <NewEventType onClose={() => setOpen(false)} />}
    </>
  );
}

const EVENT_TYPE_COLUMNS: Column<EventType>[] = [
  { name: "Name", isMain: true, cell: (row) => <a href={paths.eventType(row.name)}>{row.name}</a> },
  { name: "Description", cell: (row) => row.description ?? <span class="muted">–</span> },
  { name: "State", cell: (row) => <Badge state={row.archived_at ? "archived" : "active"} /> },
  {
    name: "Versions",
    cell: (row) => (
      <span>
        {row.versions.length === 0 && <span class="muted">–</span>}
        {row.versions.map((each) => (
          <span key={each.name} class="chip">
            {each.name}
          </span>
        ))}
      </span>
    ),
  },
  { name: "Schema", cell: (row) => (row.enforce_schema ? "enforced" : <span class="muted">not enforced</span>) },
  { name: "Changed", cell: (row) => <Time at={row.updated_at} /> },
];

function NewEventType({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const [description, setDescription] = useState("");
  const [sample, setSample] = useState("");
  const problem = sample.trim() === "" ? null : jsonProblem(sample);
  const create = async () => {
    const body = {
      name: name.trim(),
      ...(description.trim() ? { description: description.trim() } : {}),
      ...(sample.trim() ? { sample: JSON.parse(sample) as unknown } : {}),
    };
    const created = await dataOf(api.POST("/v1/event-types", { body }));
    navigate(paths.eventType(created.name));
  };
  return (
    <Dialog
      title="Add an event type"
      action="Add it"
      isReady={name.trim() !== "" && problem === null}
      onAct={create}
      onClose={onClose}
    >
      <div class="form">
        <Field label="Name" value={name} onInput={setName} placeholder="order.paid" isRequired isCode />
        <Field label="Description" value={description} onInput={setDescription} />
        <Field
          label="Sample of its data"
          value={sample}
          onInput={setSample}
          rows={6}
          isCode
          problem={problem}
          hint="JSON, for those who write receivers."
        />
      </div>
    </Dialog>
  );
}
