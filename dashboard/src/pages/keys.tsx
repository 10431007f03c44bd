import { useState } from "preact/hooks";
import { useQuery } from "../api/query";
import { api, dataOf } from "../api/client";
import { invalidate } from "../api/invalidation";
import { usePagedList } from "../api/paged-list";
import type { Key } from "../api/schema";
import { Action } from "../components/action";
import { Badge } from "../components/badge";
import { Dialog } from "../components/dialog";
import { Empty } from "../components/query-view";
import { Checkbox, Choice, Field } from "../components/field";
import { PagedTable } from "../components/paged-table";
import { PageHead } from "../components/page";
import { OneTimeSecret } from "../components/one-time-secret";
import type { Column } from "../components/table";
import { Time } from "../components/time";
import { pickQuery } from "../route/query-string";
import { currentQuery, setFilters } from "../route/router";
import { fromDateTimeField } from "../text/times";

export function Keys() {
  const isRevokedToo = pickQuery(currentQuery.value, ["revoked"]).revoked === "true";
  const [isOpen, setOpen] = useState(false);
  const list = usePagedList(
    `keys ${isRevokedToo}`,
    (cursor) =>
      dataOf(
        api.GET("/v1/keys", { params: { query: { ...(isRevokedToo ? { revoked: true } : {}), ...(cursor ? { cursor } : {}) } } }),
      ),
    (row) => row.id,
    ["keys"],
  );
  return (
    <>
      <PageHead title="Keys">
        <button type="button" class="primary" onClick={() => setOpen(true)}>
          Make a key
        </button>
      </PageHead>
      <div class="filters">
        <Checkbox
          label="Revoked ones too"
          isOn={isRevokedToo}
          onChange={(isOn) => setFilters({ revoked: isOn ? "true" : null })}
        />
      </div>
      <PagedTable
        caption="Keys"
        list={list}
        columns={KEY_COLUMNS}
        idOf={(row) => row.id}
        empty={
          <Empty title="Only the key of the settings">
            Make one for every program and person, with the narrowest scope that does.
          </Empty>
        }
      />
      {isOpen && <NewKey onClose={() => setOpen(false)} />}
    </>
  );
}

const KEY_COLUMNS: Column<Key>[] = [
  { name: "Name", isMain: true, cell: (row) => row.name ?? <span class="muted">without a name</span> },
  { name: "Key", cell: (row) => (row.prefix ? <code title={row.id}>{row.prefix}…</code> : <span class="muted">–</span>) },
  { name: "Scope", cell: (row) => row.scope },
  { name: "App", cell: (row) => row.app_id ?? <span class="muted">all</span> },
  { name: "Last used", cell: (row) => (row.last_used_at ? <Time at={row.last_used_at} /> : <span class="muted">never</span>) },
  { name: "Expires", cell: (row) => (row.expires_at ? <Time at={row.expires_at} /> : <span class="muted">never</span>) },
  {
    name: "",
    cell: (row) =>
      row.revoked_at ? (
        <Badge state="revoked" />
      ) : row.prefix === "" ? (
        <span class="muted">changed in the settings</span>
      ) : (
        <div class="buttons">
          <Action
            label="Revoke"
            done="Revoked."
            isSmall
            isDangerous
            confirm="It stops working at once, on open connections too. This cannot be undone."
            act={async () => {
              await dataOf(api.DELETE("/v1/keys/{key}", { params: { path: { key: row.id } } }));
              invalidate("keys");
            }}
          />
        </div>
      ),
  },
];

const KEY_SCOPES = [
  { value: "app", label: "app: everything in one app, but what only the operator may set" },
  { value: "publish", label: "publish: only publish events to one app" },
  { value: "read", label: "read: only look at one app, and not at secrets" },
  { value: "admin", label: "admin: everything, in every app" },
];

function NewKey({ onClose }: { onClose: () => void }) {
  const [scope, setScope] = useState("app");
  const [app, setApp] = useState("");
  const [name, setName] = useState("");
  const [expires, setExpires] = useState("");
  const [created, setCreated] = useState<Key | null>(null);
  const apps = useQuery("apps", () => dataOf(api.GET("/v1/apps", { params: { query: { limit: 250 } } })));
  const isForApp = scope !== "admin";
  const create = async () => {
    const at = fromDateTimeField(expires);
    const body = {
      scope,
      ...(isForApp ? { app_id: app.trim() } : {}),
      ...(name.trim() ? { name: name.trim() } : {}),
      ...(at ? { expires_at: at } : {}),
    };
    setCreated(await dataOf(api.POST("/v1/keys", { body })));
    invalidate("keys");
  };
  if (created !== null) {
    return (
      <OneTimeSecret
        title="The key is there"
        about="It is shown this once; only its hash is kept."
        secret={created.key ?? ""}
        onClose={onClose}
      />
    );
  }
  return (
    <Dialog title="Make a key" action="Make it" isReady={!isForApp || app.trim() !== ""} onAct={create} onClose={onClose}>
      <div class="form">
        <Choice label="Scope" value={scope} options={KEY_SCOPES} onChange={setScope} />
        {isForApp && (
          <Field
            label="App"
            value={app}
            onInput={setApp}
            suggestions={apps.data?.data.map((each) => each.id) ?? []}
            isCode
            isRequired
          />
        )}
        <Field label="Name" value={name} onInput={setName} placeholder="checkout" hint="Whose it is; the audit log shows it." />
        <Field label="Expires" type="datetime-local" value={expires} onInput={setExpires} hint="Empty: never." />
      </div>
    </Dialog>
  );
}
