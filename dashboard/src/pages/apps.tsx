import { useState } from "preact/hooks";
import { useQuery } from "../api/query";
import { api, dataOf } from "../api/client";
import { invalidate } from "../api/invalidation";
import { usePagedList } from "../api/paged-list";
import { Dialog } from "../components/dialog";
import { Skeleton, ErrorMessage } from "../components/query-view";
import { Choice, Field } from "../components/field";
import { LoadMore } from "../components/load-more";
import { PageHead } from "../components/page";
import { paths } from "../route/paths";
import { navigate } from "../route/router";
import { AppTable } from "./overview";

export function Apps() {
  const [isOpen, setOpen] = useState(false);
  const list = usePagedList(
    "apps",
    (cursor) => dataOf(api.GET("/v1/apps", { params: { query: { limit: 100, ...(cursor ? { cursor } : {}) } } })),
    (row) => row.id,
    ["apps"],
  );
  return (
    <>
      <PageHead title="Apps">
        <button type="button" class="primary" onClick={() => setOpen(true)}>
          Create an app
        </button>
      </PageHead>
      {list.rows ? (
        <AppTable apps={list.rows} />
      ) : list.error ? (
        <ErrorMessage error={list.error} onRetry={list.refetch} />
      ) : (
        <Skeleton />
      )}
      <LoadMore list={list} />
      {isOpen && <NewApp onClose={() => setOpen(false)} />}
    </>
  );
}

function NewApp({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const [id, setId] = useState("");
  const [contract, setContract] = useState("");
  const create = async () => {
    const body = { name: name.trim(), ...(id.trim() ? { id: id.trim() } : {}), ...(contract ? { contract } : {}) };
    const created = await dataOf(api.POST("/v1/apps", { body }));
    invalidate("apps");
    navigate(paths.app(created.id));
  };
  return (
    <Dialog title="Create an app" action="Create it" isReady={name.trim() !== ""} onAct={create} onClose={onClose}>
      <p class="muted">
        A tenant of yours: a merchant, an organisation, a customer. Its endpoints, events and keys are separate from all others.
      </p>
      <div class="form">
        <Field label="Name" value={name} onInput={setName} isRequired />
        <Field
          label="Id"
          value={id}
          onInput={setId}
          isCode
          placeholder="made up if empty"
          hint="Yours, if you like: what you call this customer elsewhere."
        />
        <ContractChoice value={contract} onChange={setContract} />
      </div>
    </Dialog>
  );
}

export function ContractChoice({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  const contracts = useQuery("contracts", () => dataOf(api.GET("/v1/contracts", { params: { query: { limit: 250 } } })));
  const names = contracts.data?.data.map((each) => each.name) ?? (value ? [value] : []);
  return (
    <Choice
      label="Contract"
      value={value}
      options={[
        { value: "", label: "standard, unless an endpoint names another" },
        ...names.map((name) => ({ value: name, label: name })),
      ]}
      onChange={onChange}
      hint="For all endpoints that name none of their own."
    />
  );
}
