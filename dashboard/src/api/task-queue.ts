// Runs one task at a time. Requests during a run are merged into one run after it: a slow result is shown instead of dropped,
// results never overtake each other, and the last one is newer than the last request.

/** A task never rejects, and shows no result once `isStale` returns true. */
export type Task = (isStale: () => boolean) => Promise<void>;

export class TaskQueue {
  #waiting = new Map<string, Task>();
  #isRunning = false;
  #generation = 0;

  /** Runs a task now, or after the running and waiting ones. Replaces a waiting task of the same name. */
  run(name: string, task: Task): void {
    this.#waiting.set(name, task);
    if (!this.#isRunning) void this.#runAll(this.#generation);
  }

  /** Drops the waiting tasks and marks the running one as stale. */
  clear(): void {
    this.#generation += 1;
    this.#waiting.clear();
    this.#isRunning = false;
  }

  async #runAll(generation: number): Promise<void> {
    this.#isRunning = true;
    while (generation === this.#generation) {
      const next = this.#waiting.entries().next();
      if (next.done) {
        this.#isRunning = false;
        return;
      }
      const [name, task] = next.value;
      this.#waiting.delete(name);
      await task(() => generation !== this.#generation);
    }
  }
}
