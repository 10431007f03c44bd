// Verification snippets: a self-contained function in each of five languages, written for one contract.
import type { ContractDocument } from "../contract-document";
import { type KeyKind, signingOf } from "../signing";
import { go } from "./go";
import { node } from "./node";
import { php } from "./php";
import { python } from "./python";
import { rust } from "./rust";

const TOLERANCE_SECONDS = 300;

export const LANGUAGES = [
  { name: "Python", write: python },
  { name: "Node.js", write: node },
  { name: "Go", write: go },
  { name: "PHP", write: php },
  { name: "Rust", write: rust },
] as const;

export type Language = (typeof LANGUAGES)[number]["name"];

/** Returns the snippet, or null if the signature's form is unknown or the language cannot verify it. */
export function snippet(contract: ContractDocument, language: Language, kind: KeyKind = "shared"): string | null {
  const signing = signingOf(contract, kind);
  const writer = LANGUAGES.find((each) => each.name === language);
  return signing === null || writer === undefined ? null : writer.write(signing, TOLERANCE_SECONDS);
}
