// One question at a time. What is wanted while one is in flight is asked once, after it settled: a slow answer is shown rather
// than thrown away, no answer overtakes another, and none is older than the last wish.

/** It never rejects. Whoever is told that it is stale shows nothing of it. */
export type Question = (isStale: () => boolean) => Promise<void>;

export class InTurn {
  #waiting = new Map<string, Question>();
  #isBusy = false;
  #turn = 0;

  /** Asks now, or after what is in flight and waits. Of several of one name that wait, the last is asked. */
  ask(name: string, question: Question): void {
    this.#waiting.set(name, question);
    if (!this.#isBusy) void this.#work(this.#turn);
  }

  /** What waits is not asked any more, and what is in flight is stale. */
  clear(): void {
    this.#turn += 1;
    this.#waiting.clear();
    this.#isBusy = false;
  }

  async #work(turn: number): Promise<void> {
    this.#isBusy = true;
    while (turn === this.#turn) {
      const next = this.#waiting.entries().next();
      if (next.done) {
        this.#isBusy = false;
        return;
      }
      const [name, question] = next.value;
      this.#waiting.delete(name);
      await question(() => turn !== this.#turn);
    }
  }
}
