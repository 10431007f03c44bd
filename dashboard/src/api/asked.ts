// What a view shows: asked for when its name changes, asked again after hints, kept on show meanwhile.
import { useEffect, useRef, useState } from "preact/hooks";
import { type Topic, onHints } from "./hints";
import { InTurn } from "./in-turn";
import { type Refusal, asRefusal } from "./problem";

export interface Asked<T> {
  data: T | undefined;
  refusal: Refusal | null;
  again: () => void;
}

export interface Known<T> {
  name: string;
  data: T | undefined;
  refusal: Refusal | null;
}

/** `name` stands for everything that `ask` depends on. */
interface Question<T> {
  name: string;
  ask: () => Promise<T>;
}

/** The asking, without a page. */
export class Asking<T> {
  #line = new InTurn();
  #known: Known<T> = { name: "", data: undefined, refusal: null };

  constructor(
    readonly question: () => Question<T>,
    readonly show: (known: Known<T>) => void,
  ) {}

  again = (): void => {
    this.#line.ask("again", async (isStale) => {
      const { name, ask } = this.question();
      const known = await ask().then(
        (data) => ({ name, data, refusal: null }),
        (error: unknown) => this.#refused(name, asRefusal(error)),
      );
      if (isStale()) return;
      this.#known = known;
      this.show(known);
    });
  };

  stop = (): void => this.#line.clear();

  /** What is on show stays there while it cannot be had; what was deleted does not. */
  #refused(name: string, refusal: Refusal): Known<T> {
    const isKept = this.#known.name === name && refusal.isPassing;
    return { name, data: isKept ? this.#known.data : undefined, refusal };
  }
}

/** An answer that comes after the name changed is dropped. Hints lead to a question at most once in `pauseMs`, and not before
 *  the last one was answered. */
export function useAsked<T>(name: string, ask: () => Promise<T>, topics: readonly Topic[] = [], pauseMs = 500): Asked<T> {
  const latest = useRef({ name, ask });
  latest.current = { name, ask };
  const [known, show] = useState<Known<T>>({ name, data: undefined, refusal: null });
  const [asking] = useState(() => new Asking(() => latest.current, show));
  const { again, stop } = asking;

  useEffect(() => {
    again();
    return stop;
  }, [name]);
  useEffect(() => (topics.length > 0 ? onHints(topics, again, pauseMs) : undefined), [topics.join()]);
  return known.name === name ? { ...known, again } : { data: undefined, refusal: null, again };
}
