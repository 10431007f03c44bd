// Parses server-sent events as the HTML standard defines them. Chunks may end anywhere.

export interface ServerSentEvent {
  name: string;
  data: string;
}

export class SseParser {
  #buffer = "";
  #name = "";
  #data: string[] = [];

  /** Returns the events that this chunk completes. */
  push(chunk: string): ServerSentEvent[] {
    const events: ServerSentEvent[] = [];
    this.#buffer += chunk;
    for (;;) {
      const end = /\r\n|\n|\r(?!$)/.exec(this.#buffer);
      if (end === null) return events;
      const line = this.#buffer.slice(0, end.index);
      this.#buffer = this.#buffer.slice(end.index + end[0].length);
      const event = this.#readLine(line);
      if (event !== null) events.push(event);
    }
  }

  #readLine(line: string): ServerSentEvent | null {
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
