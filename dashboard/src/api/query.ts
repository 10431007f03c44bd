// Queries of views: loaded when the name changes, loaded again after an invalidation. Old data is shown meanwhile.
import { useEffect, useRef, useState } from "preact/hooks";
import { type Topic, onInvalidate } from "./invalidation";
import { TaskQueue } from "./task-queue";
import { type ApiError, toApiError } from "./error";

export interface Query<T> {
  data: T | undefined;
  error: ApiError | null;
  refetch: () => void;
}

export interface QueryState<T> {
  name: string;
  data: T | undefined;
  error: ApiError | null;
}

/** `name` identifies everything that `load` depends on. */
interface QuerySource<T> {
  name: string;
  load: () => Promise<T>;
}

/** Runs a query, independent of components. */
export class QueryRunner<T> {
  #tasks = new TaskQueue();
  #state: QueryState<T> = { name: "", data: undefined, error: null };

  constructor(
    readonly source: () => QuerySource<T>,
    readonly show: (state: QueryState<T>) => void,
  ) {}

  refetch = (): void => {
    this.#tasks.run("refetch", async (isStale) => {
      const { name, load } = this.source();
      const state = await load().then(
        (data) => ({ name, data, error: null }),
        (error: unknown) => this.#failed(name, toApiError(error)),
      );
      if (isStale()) return;
      this.#state = state;
      this.show(state);
    });
  };

  stop = (): void => this.#tasks.clear();

  /** Keeps the shown data after a transient error. Other errors, such as 404, remove it. */
  #failed(name: string, error: ApiError): QueryState<T> {
    const keepsData = this.#state.name === name && error.isTransient;
    return { name, data: keepsData ? this.#state.data : undefined, error };
  }
}

/** Drops a result that arrives after the name changed. Invalidations cause at most one load per `pauseMs`, and never two at
 *  the same time. */
export function useQuery<T>(name: string, load: () => Promise<T>, topics: readonly Topic[] = [], pauseMs = 500): Query<T> {
  const latest = useRef({ name, load });
  latest.current = { name, load };
  const [state, show] = useState<QueryState<T>>({ name, data: undefined, error: null });
  const [runner] = useState(() => new QueryRunner(() => latest.current, show));
  const { refetch, stop } = runner;

  useEffect(() => {
    refetch();
    return stop;
  }, [name]);
  useEffect(() => (topics.length > 0 ? onInvalidate(topics, refetch, pauseMs) : undefined), [topics.join()]);
  return state.name === name ? { ...state, refetch } : { data: undefined, error: null, refetch };
}
