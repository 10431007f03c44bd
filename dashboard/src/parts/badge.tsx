import { spoken, toneOf } from "../text/states";

/** A state: colour and word, so that neither is needed alone. `called` is the contract's own name for it. */
export function Badge({ state, called }: { state: string; called?: string | null }) {
  const hasOtherName = called != null && called !== state;
  return (
    <span class={`badge ${toneOf(state)}`} title={hasOtherName ? `Its contract calls this “${called}”` : undefined}>
      {spoken(state)}
    </span>
  );
}

/** `200`, or the class of what happened where no answer came. */
export function Answer({ code, kind, success }: { code: number | null | undefined; kind: string; success: boolean }) {
  return <span class={`answer ${success ? "good" : "bad"}`}>{code ?? spoken(kind)}</span>;
}
