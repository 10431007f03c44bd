import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Empty } from "../parts/feedback";
import { Code } from "../parts/json";
import { Card } from "../parts/page";
import type { ContractDocument } from "../words/contract";
import { LANGUAGES, type Language, snippet } from "../words/snippets";

/** How to verify what a contract signs, in the language of choice. */
export function SnippetCard({
  contract,
  title,
  children,
}: {
  contract: ContractDocument;
  title: string;
  children?: ComponentChildren;
}) {
  const [language, setLanguage] = useState<Language>("Python");
  const text = snippet(contract, language);
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
    <Card title={title} beside={text !== null && choice}>
      {text === null ? (
        <Empty title="No snippet for this signature">It has a form of its own. The contract says what is signed, and how.</Empty>
      ) : (
        <>
          <Code text={text} label={`Verification in ${language}`} />
          {children}
        </>
      )}
    </Card>
  );
}
