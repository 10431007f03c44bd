import { humanize, toneOf } from "../text/states";

/** A state: colour and word, so that neither is needed alone. `called` is the contract's own name for it. */
export function Badge({ state, contractStatus }: { state: string; contractStatus?: string | null }) {
  const hasOtherName = contractStatus != null && contractStatus !== state;
  return (
    <span class={`badge ${toneOf(state)}`} title={hasOtherName ? `Its contract calls this “${contractStatus}”` : undefined}>
      {humanize(state)}
    </span>
  );
}

/** `200`, or the class of what happened where no answer came. */
export function AnswerBadge({ code, kind, success }: { code: number | null | undefined; kind: string; success: boolean }) {
  return <span class={`answer ${success ? "good" : "bad"}`}>{code ?? humanize(kind)}</span>;
}
