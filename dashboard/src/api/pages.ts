// A list that is read page by page. Fresh first pages are laid over what was read before, so that nothing jumps.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { Topic } from "./hints";
import { onHints } from "./hints";
import { type Refusal, asRefusal } from "./problem";

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

/** The fresh first page, then what was read before and is not in it. Within the fresh page's reach, what it lacks is gone. */
export function layOver<T>(fresh: readonly T[], before: readonly T[], idOf: (row: T) => string): T[] {
  const ids = new Set(fresh.map(idOf));
  const last = fresh.at(-1);
  const reach = last === undefined ? -1 : before.findIndex((row) => idOf(row) === idOf(last));
  const older = reach >= 0 ? before.slice(reach + 1) : before;
  return [...fresh, ...older.filter((row) => !ids.has(idOf(row)))];
}

interface State<T> {
  name: string;
  rows: T[] | undefined;
  cursor: string | null;
  pageCount: number;
  refusal: Refusal | null;
  isReading: boolean;
}

const EMPTY = { rows: undefined, cursor: null, pageCount: 0, refusal: null, isReading: true };

export function usePages<T>(
  name: string,
  read: (cursor: string | undefined) => Promise<Page<T>>,
  idOf: (row: T) => string,
  topics: readonly Topic[] = [],
): Pages<T> {
  const [state, setState] = useState<State<T>>({ name, ...EMPTY });
  const latest = useRef({ name, read, state });
  latest.current = { name, read, state };

  const load = useCallback((isMore: boolean) => {
    const asked = latest.current.name;
    const cursor = isMore ? (latest.current.state.cursor ?? undefined) : undefined;
    if (isMore) setState((before) => ({ ...before, isReading: true }));
    latest.current.read(cursor).then(
      (page) => {
        if (latest.current.name !== asked) return;
        setState((before) => {
          const had = before.name === asked ? before : { name: asked, ...EMPTY };
          const next = page.next_cursor ?? null;
          const done = { name: asked, refusal: null, isReading: false };
          if (isMore) return { ...done, rows: [...(had.rows ?? []), ...page.data], cursor: next, pageCount: had.pageCount + 1 };
          if (had.pageCount <= 1) return { ...done, rows: page.data, cursor: next, pageCount: 1 };
          return { ...done, rows: layOver(page.data, had.rows ?? [], idOf), cursor: had.cursor, pageCount: had.pageCount };
        });
      },
      (error: unknown) => {
        if (latest.current.name !== asked) return;
        setState((before) => {
          const had = before.name === asked ? before : { name: asked, ...EMPTY };
          return { ...had, refusal: asRefusal(error), isReading: false };
        });
      },
    );
  }, []);

  useEffect(() => load(false), [name]);
  useEffect(() => (topics.length > 0 ? onHints(topics, () => load(false)) : undefined), [topics.join()]);
  const shown = state.name === name ? state : { name, ...EMPTY };
  return {
    rows: shown.rows,
    refusal: shown.refusal,
    hasMore: shown.cursor !== null,
    isReading: shown.isReading,
    more: () => load(true),
    again: () => load(false),
  };
}
