import { useState } from "preact/hooks";
import { useQuery } from "../api/query";
import { api, dataOf } from "../api/client";
import type { PortalLink } from "../api/schema";
import { Action } from "../components/action";
import { Dialog } from "../components/dialog";
import { Empty, QueryView } from "../components/query-view";
import { Checkbox, Field } from "../components/field";
import { PageHead } from "../components/page";
import { OneTimeSecret } from "../components/one-time-secret";
import { Table } from "../components/table";
import { Time } from "../components/time";
import { parseHex } from "../text/colour";

export function PortalLinks({ app }: { app: string }) {
  const [isOpen, setOpen] = useState(false);
  const query = useQuery(`links ${app}`, () => dataOf(api.GET("/v1/apps/{app}/portal-links", { params: { path: { app } } })));
  return (
    <>
      <PageHead title="Portal links">
        {query.data && (
          <button type="button" class="primary" onClick={() => setOpen(true)}>
            Make a link
          </button>
        )}
      </PageHead>
      <QueryView query={query}>
        {(page) =>
          page.data.length === 0 ? (
            <Empty title="No links">
              A link lets a customer manage this app’s endpoints, see its deliveries, test and replay: this app, and nothing else.
            </Empty>
          ) : (
            <LinkTable app={app} links={page.data} refetch={query.refetch} />
          )
        }
      </QueryView>
      {isOpen && <NewLink app={app} onClose={() => setOpen(false)} onCreated={query.refetch} />}
    </>
  );
}

function LinkTable({ app, links, refetch }: { app: string; links: PortalLink[]; refetch: () => void }) {
  return (
    <Table
      caption="Portal links"
      rows={links}
      idOf={(row) => row.id}
      columns={[
        {
          name: "Link",
          isMain: true,
          cell: (row) => (
            <>
              {row.theme.name} <code>{row.prefix}…</code>
            </>
          ),
        },
        { name: "May", cell: (row) => (row.read_only ? "look" : "look and change") },
        { name: "Made", cell: (row) => <Time at={row.created_at} /> },
        { name: "Expires", cell: (row) => <Time at={row.expires_at} /> },
        {
          name: "Last used",
          cell: (row) => (row.last_used_at ? <Time at={row.last_used_at} /> : <span class="muted">never</span>),
        },
        {
          name: "",
          cell: (row) => (
            <div class="buttons">
              <Action
                label="Revoke"
                done="Revoked."
                isSmall
                isDangerous
                act={async () => {
                  await dataOf(api.DELETE("/v1/apps/{app}/portal-links/{link}", { params: { path: { app, link: row.id } } }));
                  refetch();
                }}
              />
            </div>
          ),
        },
      ]}
    />
  );
}

function NewLink({ app, onClose, onCreated }: { app: string; onClose: () => void; onCreated: () => void }) {
  const [lasts, setLasts] = useState("1h");
  const [isReadOnly, setReadOnly] = useState(false);
  const [name, setName] = useState("");
  const [logo, setLogo] = useState("");
  const [accent, setAccent] = useState("");
  const [created, setCreated] = useState<PortalLink | null>(null);
  const accentProblem =
    accent !== "" && parseHex(accent) === null ? "Not a colour: six hex digits after #, for example #3450c4." : null;
  const create = async () => {
    const theme = {
      ...(name.trim() ? { name: name.trim() } : {}),
      ...(logo.trim() ? { logo_url: logo.trim() } : {}),
      ...(accent ? { accent } : {}),
    };
    const body = { expires_in: lasts.trim(), read_only: isReadOnly, ...(Object.keys(theme).length > 0 ? { theme } : {}) };
    setCreated(await dataOf(api.POST("/v1/apps/{app}/portal-links", { params: { path: { app } }, body })));
    onCreated();
  };
  if (created !== null) {
    return (
      <OneTimeSecret
        title="The link is there"
        about="Whoever has it may use the portal until it expires. It is shown this once."
        secret={created.url ?? ""}
        onClose={onClose}
      />
    );
  }
  return (
    <Dialog title="Make a portal link" action="Make it" isReady={accentProblem === null} onAct={create} onClose={onClose}>
      <div class="form">
        <div class="pair">
          <Field label="Lasts" value={lasts} onInput={setLasts} isCode hint="15m, 1h, 7d" />
          <Field label="Accent colour" value={accent} onInput={setAccent} isCode placeholder="#3450c4" problem={accentProblem} />
        </div>
        <Checkbox label="Read-only: look, and change nothing" isOn={isReadOnly} onChange={setReadOnly} />
        <Field label="Name on top" value={name} onInput={setName} placeholder="Posthaste" />
        <Field
          label="Logo address"
          type="url"
          value={logo}
          onInput={setLogo}
          isCode
          hint="The setting portal_origins says whose pages may show the portal in a frame."
        />
      </div>
    </Dialog>
  );
}
