import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Empty } from "../components/query-view";
import { Code } from "../components/json";
import { Card } from "../components/page";
import type { ContractDocument } from "../text/contract-document";
import type { KeyKind } from "../text/signing";
import { LANGUAGES, type Language, snippet } from "../text/snippets";

/** Shows how to verify a contract's signatures in the chosen language. */
export function SnippetCard({
  contract,
  kind = "shared",
  title,
  children,
}: {
  contract: ContractDocument;
  kind?: KeyKind;
  title: string;
  children?: ComponentChildren;
}) {
  const [language, setLanguage] = useState<Language>("Python");
  const text = snippet(contract, language, kind);
  const isAnywhere = LANGUAGES.some(({ name }) => snippet(contract, name, kind) !== null);
  const choice = (
    <div class="segments" role="group" aria-label="Language">
      {LANGUAGES.map(({ name }) => (
        <button key={name} type="button" aria-pressed={name === language} onClick={() => setLanguage(name)}>
          {name}
        </button>
      ))}
    </div>
  );
  return (
    <Card title={title} aside={isAnywhere && choice}>
      {text === null ? (
        <Empty title={isAnywhere ? `No snippet in ${language} for this signature` : "No snippet for this signature"}>
          It has a form of its own. The contract says what is signed, and how.
        </Empty>
      ) : (
        <>
          <Code text={text} label={`Verification in ${language}`} />
          {children}
        </>
      )}
    </Card>
  );
}
