// Server-sent events out of a stream of text, as the HTML standard cuts it; chunks may end anywhere.

export interface SentEvent {
  name: string;
  data: string;
}

export class EventReader {
  #rest = "";
  #name = "";
  #data: string[] = [];

  /** The events that are complete with this chunk. */
  push(chunk: string): SentEvent[] {
    const events: SentEvent[] = [];
    this.#rest += chunk;
    for (;;) {
      const end = /\r\n|\n|\r(?!$)/.exec(this.#rest);
      if (end === null) return events;
      const line = this.#rest.slice(0, end.index);
      this.#rest = this.#rest.slice(end.index + end[0].length);
      const event = this.#take(line);
      if (event !== null) events.push(event);
    }
  }

  #take(line: string): SentEvent | null {
    if (line === "") {
      const event = this.#data.length > 0 ? { name: this.#name || "message", data: this.#data.join("\n") } : null;
      this.#name = "";
      this.#data = [];
      return event;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.#name = value;
    if (field === "data") this.#data.push(value);
    return null;
  }
}
