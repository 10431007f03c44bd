// One question at a time. What is wanted while one is in flight is asked once, after it settled: a slow answer is shown rather
// than thrown away, no answer overtakes another, and none is older than the last wish.

/** It never rejects. Whoever is told that it is stale shows nothing of it. */
export type Task = (isStale: () => boolean) => Promise<void>;

export class TaskQueue {
  #waiting = new Map<string, Task>();
  #isRunning = false;
  #generation = 0;

  /** Asks now, or after what is in flight and waits. Of several of one name that wait, the last is asked. */
  run(name: string, task: Task): void {
    this.#waiting.set(name, task);
    if (!this.#isRunning) void this.#runAll(this.#generation);
  }

  /** What waits is not asked any more, and what is in flight is stale. */
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
