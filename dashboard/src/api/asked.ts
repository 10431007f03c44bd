// What a view shows: asked for when its name changes, asked again after hints, kept on show meanwhile.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { type Topic, onHints } from "./hints";
import { type Refusal, asRefusal } from "./problem";

export interface Asked<T> {
  data: T | undefined;
  refusal: Refusal | null;
  again: () => void;
}

type State<T> = { name: string; data: T | undefined; refusal: Refusal | null };

/** `name` stands for everything that `ask` depends on. An answer that comes after the name changed is dropped.
 *  Hints lead to a question at most once in `pauseMs`. */
export function useAsked<T>(name: string, ask: () => Promise<T>, topics: readonly Topic[] = [], pauseMs = 500): Asked<T> {
  const [state, setState] = useState<State<T>>({ name, data: undefined, refusal: null });
  const latest = useRef({ name, ask, turn: 0 });
  latest.current.name = name;
  latest.current.ask = ask;

  const again = useCallback(() => {
    const turn = ++latest.current.turn;
    const asked = latest.current.name;
    const isStale = () => latest.current.turn !== turn || latest.current.name !== asked;
    latest.current.ask().then(
      (data) => isStale() || setState({ name: asked, data, refusal: null }),
      (error: unknown) => {
        if (isStale()) return;
        const refusal = asRefusal(error);
        setState((before) => {
          // What is on show stays there while the server is away; what was deleted does not.
          const kept = before.name === asked && refusal.status === 0 ? before.data : undefined;
          return { name: asked, data: kept, refusal };
        });
      },
    );
  }, []);

  useEffect(again, [name]);
  useEffect(() => (topics.length > 0 ? onHints(topics, again, pauseMs) : undefined), [topics.join()]);
  useEffect(() => () => void latest.current.turn++, []);
  return state.name === name ? { ...state, again } : { data: undefined, refusal: null, again };
}
