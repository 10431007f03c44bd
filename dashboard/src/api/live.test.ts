import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { standInForBrowser } from "./browser.fixture";

const { document } = standInForBrowser();
const { follow, liveness } = await import("./live");
const { onHints } = await import("./hints");

interface Opened {
  address: string;
  signal: AbortSignal;
  send: (text: string) => void;
  end: () => void;
}

describe("the stream", () => {
  let opened: Opened[];
  /** What the server answers instead of a stream. */
  let error: Response | null;
  let told: number;
  let stops: (() => void)[];

  /** Time passes, and what follows from it happens. */
  const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);
  const begin = async () => {
    stops.push(follow("shop"));
    await pass(0);
  };

  beforeEach(() => {
    vi.useFakeTimers();
    [opened, error, told] = [[], null, 0];
    stops = [onHints(["deliveries"], () => (told += 1), 0)];
    vi.stubGlobal("fetch", async (request: Request) => {
      let controller: ReadableStreamDefaultController<Uint8Array>;
      const body = new ReadableStream<Uint8Array>({ start: (given) => void (controller = given) });
      opened.push({
        address: request.url,
        signal: request.signal,
        send: (text) => controller.enqueue(new TextEncoder().encode(text)),
        end: () => controller.close(),
      });
      return error?.clone() ?? new Response(body);
    });
  });

  afterEach(() => {
    for (const stop of stops) stop();
    vi.useRealTimers();
  });

  it("hints everything whenever it opens, for what happened before was not told", async () => {
    await begin();
    await pass(1);
    expect([liveness.value, told]).toEqual(["live", 1]);
    opened[0]?.end();
    await pass(600);
    expect([liveness.value, opened.length, told]).toEqual(["live", 2, 2]);
  });

  it("tells what it is sent, and nobody asks meanwhile", async () => {
    await begin();
    await pass(9000);
    told = 0;
    opened[0]?.send("event: attempt\ndata: {}\n\n");
    await pass(1);
    expect(told).toBe(1);
    opened[0]?.send("event: endpoint\ndata: {}\n\n");
    await pass(9000);
    expect(told).toBe(1);
  });

  it("gives its connection back when it was silent for too long", async () => {
    await begin();
    await pass(19_000);
    opened[0]?.send(":\n\n");
    await pass(19_000);
    expect([opened.length, opened[0]?.signal.aborted]).toEqual([1, false]);
    await pass(2000);
    expect([opened.length, opened[0]?.signal.aborted, opened[1]?.signal.aborted]).toEqual([2, true, false]);
  });

  it("is closed when nobody follows it any more, and out of sight", async () => {
    await begin();
    document.hidden = true;
    document.dispatchEvent(new Event("visibilitychange"));
    expect(opened[0]?.signal.aborted).toBe(true);
    document.hidden = false;
    document.dispatchEvent(new Event("visibilitychange"));
    await pass(0);
    stops.pop()?.();
    expect([opened.length, opened[1]?.signal.aborted]).toEqual([2, true]);
  });

  it("is asked for instead, until it opens and when it broke", async () => {
    error = new Response(null, { status: 503 });
    await begin();
    expect(liveness.value).toBe("lost");
    await pass(10_001);
    expect(told).toBe(2);
    error = null;
    await pass(5000);
    expect(liveness.value).toBe("live");
    error = new Response(null, { status: 503 });
    opened.at(-1)?.end();
    await pass(1);
    told = 0;
    await pass(10_000);
    expect([liveness.value, told]).toEqual(["lost", 2]);
  });

  it("that hangs before it opens is given up, and views ask meanwhile", async () => {
    vi.stubGlobal("fetch", (request: Request) => {
      opened.push({ address: request.url, signal: request.signal, send: () => undefined, end: () => undefined });
      return new Promise(() => undefined);
    });
    await begin();
    await pass(10_001);
    expect([liveness.value, told]).toEqual(["asking", 2]);
    await pass(11_000);
    expect([opened.length, opened[0]?.signal.aborted]).toEqual([2, true]);
  });

  it.each([403, 404, 405])("is absent after %i: the views ask, and it is not tried again", async (status) => {
    error = new Response(null, { status });
    await begin();
    await pass(60_001);
    expect([liveness.value, opened.length, told]).toEqual(["asking", 1, 12]);
  });

  it("is opened when it is said, where there were too many", async () => {
    error = new Response(null, { status: 429, headers: { "retry-after": "7" } });
    await begin();
    await pass(6900);
    expect([liveness.value, opened.length]).toEqual(["asking", 1]);
    error = null;
    await pass(200);
    expect([liveness.value, opened.length]).toEqual(["live", 2]);
  });

  it("is opened at the date that is said, but within a minute", async () => {
    error = new Response(null, { status: 503, headers: { "retry-after": new Date(Date.now() + 20_000).toUTCString() } });
    await begin();
    await pass(18_000);
    expect(opened).toHaveLength(1);
    error = new Response(null, { status: 429, headers: { "retry-after": "86400" } });
    await pass(3000);
    expect(opened).toHaveLength(2);
    await pass(60_001);
    expect(opened).toHaveLength(3);
  });
});
