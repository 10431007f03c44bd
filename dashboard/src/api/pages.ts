// A list that is read page by page. After hints all that is shown is read again, so that rows far down change too.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Topic } from "./hints";
import { onHints } from "./hints";
import { InTurn } from "./in-turn";
import { type Refusal, asRefusal } from "./problem";

/** So many pages are read again at once; what is shown beyond them stays as it was read. */
export const REREAD_PAGES_MAX = 5;

export interface Page<T> {
  data: T[];
  next_cursor?: string | null;
}

export interface Pages<T> {
  rows: T[] | undefined;
  refusal: Refusal | null;
  hasMore: boolean;
  isReading: boolean;
  more: () => void;
  again: () => void;
}

/** Pages that were read, and where to read on. */
export interface Stretch<T> {
  rows: T[];
  cursor: string | null;
  pageCount: number;
}

const NOTHING = { rows: [], cursor: null, pageCount: 0 };

function extended<T>({ rows, pageCount }: Stretch<T>, page: Page<T>, idOf: (row: T) => string): Stretch<T> {
  const ids = new Set(rows.map(idOf));
  const added = page.data.filter((row) => !ids.has(idOf(row)));
  return { rows: [...rows, ...added], cursor: page.next_cursor ?? null, pageCount: pageCount + 1 };
}

/** What is fresh, then what was shown beyond its reach. Where the two do not meet there would be a gap: then only what is fresh. */
export function laidOver<T>(fresh: Stretch<T>, before: Stretch<T>, idOf: (row: T) => string): Stretch<T> {
  if (fresh.cursor === null || fresh.pageCount >= before.pageCount) return fresh;
  const places = new Map(before.rows.map((row, at) => [idOf(row), at]));
  const meeting = fresh.rows.findLast((row) => places.has(idOf(row)));
  // Pages of a filtered list may have no rows at all, and meet nothing.
  if (meeting === undefined && fresh.rows.length > 0) return fresh;
  const reach = meeting === undefined ? 0 : (places.get(idOf(meeting)) ?? 0) + 1;
  const ids = new Set(fresh.rows.map(idOf));
  return { ...before, rows: [...fresh.rows, ...before.rows.slice(reach).filter((row) => !ids.has(idOf(row)))] };
}

interface Source<T> {
  name: string;
  read: (cursor: string | undefined) => Promise<Page<T>>;
  idOf: (row: T) => string;
}

export interface ReadSoFar<T> {
  name: string;
  /** Null until a page came. */
  stretch: Stretch<T> | null;
  refusal: Refusal | null;
  isReading: boolean;
}

function unread(name: string): ReadSoFar<never> {
  return { name, stretch: null, refusal: null, isReading: true };
}

/** The reading, without a page. */
export class Reading<T> {
  #line = new InTurn();
  #soFar: ReadSoFar<T> = unread("");
  #isMoreWanted = false;

  constructor(
    readonly source: () => Source<T>,
    readonly show: (soFar: ReadSoFar<T>) => void,
  ) {}

  again = (): void => {
    this.#ask("again", async ({ read, idOf }, before) => {
      let fresh: Stretch<T> = NOTHING;
      do fresh = extended(fresh, await read(fresh.cursor ?? undefined), idOf);
      while (fresh.cursor !== null && fresh.pageCount < Math.min(before.pageCount, REREAD_PAGES_MAX));
      return laidOver(fresh, before, idOf);
    });
  };

  more = (): void => {
    if (this.#isMoreWanted) return;
    this.#isMoreWanted = true;
    this.#tell({ ...this.#soFar, isReading: true });
    this.#ask("more", async ({ read, idOf }, before) => {
      try {
        return before.cursor === null ? before : extended(before, await read(before.cursor), idOf);
      } finally {
        this.#isMoreWanted = false;
      }
    });
  };

  stop = (): void => {
    this.#line.clear();
    this.#isMoreWanted = false;
  };

  #ask(what: string, ask: (source: Source<T>, before: Stretch<T>) => Promise<Stretch<T>>): void {
    this.#line.ask(what, async (isStale) => {
      const source = this.source();
      const before = this.#soFar.name === source.name ? this.#soFar : unread(source.name);
      const after = await ask(source, before.stretch ?? NOTHING).then(
        (stretch) => ({ stretch, refusal: null }),
        (error: unknown) => ({ stretch: before.stretch, refusal: asRefusal(error) }),
      );
      if (!isStale()) this.#tell({ name: source.name, ...after, isReading: this.#isMoreWanted });
    });
  }

  #tell(soFar: ReadSoFar<T>): void {
    this.#soFar = soFar;
    this.show(soFar);
  }
}

export function usePages<T>(
  name: string,
  read: (cursor: string | undefined) => Promise<Page<T>>,
  idOf: (row: T) => string,
  topics: readonly Topic[] = [],
): Pages<T> {
  const latest = useRef({ name, read, idOf });
  latest.current = { name, read, idOf };
  const [soFar, show] = useState<ReadSoFar<T>>(unread(name));
  const [reading] = useState(() => new Reading(() => latest.current, show));
  const { again, more, stop } = reading;

  useEffect(() => {
    again();
    return stop;
  }, [name]);
  useEffect(() => (topics.length > 0 ? onHints(topics, again) : undefined), [topics.join()]);
  const { stretch, refusal, isReading } = soFar.name === name ? soFar : unread(name);
  return { rows: stretch?.rows, refusal, hasMore: (stretch?.cursor ?? null) !== null, isReading, more, again };
}
