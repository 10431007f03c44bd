import type { ComponentChildren } from "preact";
import { useQuery } from "../api/query";
import { api, dataOf } from "../api/client";
import type { Contract } from "../api/schema";
import { QueryView } from "../components/query-view";
import { Json } from "../components/json";
import { Card, PropertyList, PageHead } from "../components/page";
import { Table } from "../components/table";
import { paths } from "../route/paths";
import { isPortal } from "../session/session";
import { type ContractDocument, withBrand, headerTemplates } from "../text/contract-document";
import { ContractSchedule, endText } from "./contracts";
import { SnippetCard } from "./snippet-card";

export function ContractPage({ name }: { name: string }) {
  const query = useQuery(`contract ${name}`, () =>
    dataOf(api.GET("/v1/contracts/{contract}", { params: { path: { contract: name } } })),
  );
  return (
    <>
      <PageHead
        title={name}
        breadcrumbs={isPortal.value ? [] : [{ label: "Contracts", href: paths.contracts() }]}
        aside={query.data && <span class="muted">{query.data.built_in ? "built in" : "the operator’s own"}</span>}
      />
      <QueryView query={query}>{(contract) => <ContractDetails contract={contract} />}</QueryView>
    </>
  );
}

function ContractDetails({ contract }: { contract: Contract }) {
  const document = contract.document as unknown as ContractDocument;
  return (
    <div class="stack">
      <p>{contract.description}</p>
      <Card title="When attempts come">
        <ContractSchedule contract={contract} />
        <Table
          caption="Attempts"
          isTight
          rows={contract.timeline.attempts}
          idOf={(row) => String(row.number)}
          columns={[
            { name: "Attempt", isMain: true, cell: (row) => row.number },
            { name: "At", cell: (row) => <span class="number">{row.at}</span> },
          ]}
        />
        <p class="about">
          Then {endText(contract)}. T is the first attempt; the times are those of a receiver that always fails at once.
        </p>
      </Card>
      <Card title="What receivers get">
        <PropertyList properties={contractProperties(document)} />
      </Card>
      <SnippetCard contract={document} title="Verifying" />
      <Card title="Every field">
        <Json text={JSON.stringify(contract.document)} label="contract" />
      </Card>
    </div>
  );
}

function contractProperties(document: ContractDocument): [string, ComponentChildren][] {
  const { signature } = document;
  return [
    [
      "Body",
      <code>
        {document.body.form === "flat"
          ? `{${document.body.fields.map((each) => each.name).join(", ")}, …data}`
          : `{${document.body.fields.map((each) => each.name).join(", ")}}`}
      </code>,
    ],
    ["Signature", <code>{`${withBrand(signature.header, document)}: ${signature.hmac_sha256 ?? signature.ed25519 ?? ""}`}</code>],
    ["Signed", <code>{signature.signs}</code>],
    ["Headers", headerTemplates(document).map(([name, value]) => <span key={name} class="chip">{`${name}: ${value}`}</span>)],
    ["User agent", <code>{withBrand(document.user_agent, document)}</code>],
    ["Answer within", document.timeout],
    ["Waiting when switched off", document.off.waiting],
    ["Published while off", document.off.published],
  ];
}
