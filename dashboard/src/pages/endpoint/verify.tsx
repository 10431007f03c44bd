import { useState } from "preact/hooks";
import { api, dataOf } from "../../api/client";
import { invalidate } from "../../api/invalidation";
import type { Endpoint, Secrets } from "../../api/schema";
import { Action } from "../../components/action";
import { Copyable } from "../../components/copy";
import { Dialog } from "../../components/dialog";
import { Empty, Skeleton } from "../../components/query-view";
import { Field } from "../../components/field";
import { Card } from "../../components/page";
import { LongTime } from "../../components/time";
import { mayChange } from "../../session/session";
import type { ContractDocument } from "../../text/contract-document";
import { type KeyKind, deduplicateBy, keyKindOf, signingOf, signsTime } from "../../text/signing";
import { fromDateTimeField } from "../../text/times";
import { SnippetCard } from "../snippet-card";

interface Props {
  app: string;
  endpoint: Endpoint;
  /** Undefined while loading, null if not available. */
  contract: ContractDocument | null | undefined;
}

export function Verify({ app, endpoint, contract }: Props) {
  return (
    <div class="stack">
      {mayChange.value && <SecretCard app={app} endpoint={endpoint} contract={contract ?? null} />}
      {contract === undefined ? (
        <Skeleton />
      ) : contract === null ? (
        <Empty title="The contract cannot be looked at with this key">
          Ask whoever gave it to you which contract the endpoint has.
        </Empty>
      ) : (
        <Snippets contract={contract} kind={keyKindOf(endpoint)} />
      )}
    </div>
  );
}

function Snippets({ contract, kind }: { contract: ContractDocument; kind: KeyKind }) {
  const signing = signingOf(contract, kind);
  const deduplicate = deduplicateBy(contract);
  return (
    <SnippetCard contract={contract} kind={kind} title={`Verify what comes, as ${contract.name} signs it`}>
      <ul>
        {kind === "ed25519" && (
          <li>
            <code>WEBHOOK_PUBLIC_KEY</code> is the public key that stands beside the secret: <code>whpk_</code> and so on.
          </li>
        )}
        <li>Answer 2xx within 5 seconds, before the work is done; 4xx to what does not verify.</li>
        {deduplicate && <li>Deduplicate by {deduplicate}: at least once means now and then twice.</li>}
        {signing && !signsTime(signing) && <li>This contract does not sign the time, so nothing tells how old a request is.</li>}
      </ul>
    </SnippetCard>
  );
}

function SecretCard({ app, endpoint, contract }: { app: string; endpoint: Endpoint; contract: ContractDocument | null }) {
  const [secrets, setSecrets] = useState<Secrets | null>(null);
  const [isRotating, setRotating] = useState(false);
  const path = { app, endpoint: endpoint.id };
  return (
    <Card
      title="Secret"
      aside={
        <>
          {secrets === null ? (
            <Action
              label="Show"
              act={async () =>
                setSecrets(await dataOf(api.GET("/v1/apps/{app}/endpoints/{endpoint}/secret", { params: { path } })))
              }
            />
          ) : (
            <button type="button" onClick={() => setSecrets(null)}>
              Hide
            </button>
          )}
          <button type="button" onClick={() => setRotating(true)}>
            Rotate…
          </button>
        </>
      }
    >
      {secrets === null ? (
        <p class="muted">
          It signs every request to this endpoint.{" "}
          {keyKindOf(endpoint) === "ed25519"
            ? "Its receiver needs the public key that goes with it, and nobody the secret."
            : "Its receiver needs it, and nobody else."}
        </p>
      ) : (
        <ul class="feed">
          {secrets.secrets.map((each) => (
            <li key={each.secret}>
              <Copyable text={each.secret} />
              {each.public_key && (
                <span class="about">
                  Public key: <code>{each.public_key}</code>
                </span>
              )}
              <span class="about">
                Valid from <LongTime at={each.valid_from} />
                {each.valid_until && (
                  <>
                    {" "}
                    until <LongTime at={each.valid_until} />
                  </>
                )}
              </span>
            </li>
          ))}
        </ul>
      )}
      {isRotating && (
        <RotateDialog
          path={path}
          isOverlapping={contract?.secret.rotation === "both"}
          onClose={() => setRotating(false)}
          onRotated={setSecrets}
        />
      )}
    </Card>
  );
}

interface RotateProps {
  path: { app: string; endpoint: string };
  /** Whether both secrets sign for a while. Otherwise the new one takes over at one instant. */
  isOverlapping: boolean;
  onClose: () => void;
  onRotated: (secrets: Secrets) => void;
}

function RotateDialog({ path, isOverlapping, onClose, onRotated }: RotateProps) {
  const [overlap, setOverlap] = useState("24h");
  const [at, setAt] = useState("");
  const rotate = async () => {
    const effective = fromDateTimeField(at);
    const body = isOverlapping ? { overlap } : effective ? { effective_at: effective } : {};
    onRotated(await dataOf(api.POST("/v1/apps/{app}/endpoints/{endpoint}/secret/rotate", { params: { path }, body })));
    invalidate("endpoints");
    onClose();
  };
  return (
    <Dialog title="Rotate the secret" action="Make a new secret" onAct={rotate} onClose={onClose}>
      <p>
        {isOverlapping
          ? "Requests are signed with both secrets for a while, so the receiver can change over at any time in it."
          : "This contract has one signature: the new secret takes over at an instant. Give it to the receiver, beside the old one, before that."}
      </p>
      <div class="form">
        {isOverlapping ? (
          <Field
            label="The old one signs too for"
            value={overlap}
            onInput={setOverlap}
            hint="A number and a unit: 30m, 24h, 7d."
            isCode
          />
        ) : (
          <Field label="Takes over" type="datetime-local" value={at} onInput={setAt} hint="Empty: at once." />
        )}
      </div>
    </Dialog>
  );
}
