import { humanize, toneOf } from "../text/states";

/** A state as colour and word, so that the colour alone is not needed. `contractStatus` is the contract's name for the state. */
export function Badge({ state, contractStatus }: { state: string; contractStatus?: string | null }) {
  const hasOtherName = contractStatus != null && contractStatus !== state;
  return (
    <span class={`badge ${toneOf(state)}`} title={hasOtherName ? `Its contract calls this “${contractStatus}”` : undefined}>
      {humanize(state)}
    </span>
  );
}

/** The status code of an attempt, or its outcome class if no response came. */
export function AnswerBadge({ code, kind, success }: { code: number | null | undefined; kind: string; success: boolean }) {
  return <span class={`answer ${success ? "good" : "bad"}`}>{code ?? humanize(kind)}</span>;
}
