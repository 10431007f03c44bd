import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { stubBrowser } from "./browser.fixture";

const { document } = stubBrowser();
const { followUpdates, streamState } = await import("./live-updates");
const { onInvalidate } = await import("./invalidation");

interface OpenedStream {
  address: string;
  signal: AbortSignal;
  send: (text: string) => void;
  end: () => void;
}

describe("the stream", () => {
  let opened: OpenedStream[];
  /** The server's response instead of a stream. */
  let error: Response | null;
  let refetches: number;
  let stops: (() => void)[];

  /** Advances the clock and runs the timers that are due. */
  const advance = (ms: number) => vi.advanceTimersByTimeAsync(ms);
  const begin = async () => {
    stops.push(followUpdates("shop"));
    await advance(0);
  };

  beforeEach(() => {
    vi.useFakeTimers();
    [opened, error, refetches] = [[], null, 0];
    stops = [onInvalidate(["deliveries"], () => (refetches += 1), 0)];
    vi.stubGlobal("fetch", async (request: Request) => {
      let controller: ReadableStreamDefaultController<Uint8Array>;
      const body = new ReadableStream<Uint8Array>({ start: (streamController) => void (controller = streamController) });
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

  it("invalidates all topics when it opens", async () => {
    await begin();
    await advance(1);
    expect([streamState.value, refetches]).toEqual(["live", 1]);
    opened[0]?.end();
    await advance(600);
    expect([streamState.value, opened.length, refetches]).toEqual(["live", 2, 2]);
  });

  it("invalidates the topics of an update, without polling", async () => {
    await begin();
    await advance(9000);
    refetches = 0;
    opened[0]?.send("event: attempt\ndata: {}\n\n");
    await advance(1);
    expect(refetches).toBe(1);
    opened[0]?.send("event: endpoint\ndata: {}\n\n");
    await advance(9000);
    expect(refetches).toBe(1);
  });

  it("closes its connection after too long a silence", async () => {
    await begin();
    await advance(19_000);
    opened[0]?.send(":\n\n");
    await advance(19_000);
    expect([opened.length, opened[0]?.signal.aborted]).toEqual([1, false]);
    await advance(2000);
    expect([opened.length, opened[0]?.signal.aborted, opened[1]?.signal.aborted]).toEqual([2, true, false]);
  });

  it("is closed when it is no longer followed, and while the page is hidden", async () => {
    await begin();
    document.hidden = true;
    document.dispatchEvent(new Event("visibilitychange"));
    expect(opened[0]?.signal.aborted).toBe(true);
    document.hidden = false;
    document.dispatchEvent(new Event("visibilitychange"));
    await advance(0);
    stops.pop()?.();
    expect([opened.length, opened[1]?.signal.aborted]).toEqual([2, true]);
  });

  it("is replaced by polling until it opens and after it broke", async () => {
    error = new Response(null, { status: 503 });
    await begin();
    expect(streamState.value).toBe("lost");
    await advance(10_001);
    expect(refetches).toBe(2);
    error = null;
    await advance(5000);
    expect(streamState.value).toBe("live");
    error = new Response(null, { status: 503 });
    opened.at(-1)?.end();
    await advance(1);
    refetches = 0;
    await advance(10_000);
    expect([streamState.value, refetches]).toEqual(["lost", 2]);
  });

  it("times out while opening, and views poll meanwhile", async () => {
    vi.stubGlobal("fetch", (request: Request) => {
      opened.push({ address: request.url, signal: request.signal, send: () => undefined, end: () => undefined });
      return new Promise(() => undefined);
    });
    await begin();
    await advance(10_001);
    expect([streamState.value, refetches]).toEqual(["polling", 2]);
    await advance(11_000);
    expect([opened.length, opened[0]?.signal.aborted]).toEqual([2, true]);
  });

  it.each([403, 404, 405])("is not retried after %i, and views poll", async (status) => {
    error = new Response(null, { status });
    await begin();
    await advance(60_001);
    expect([streamState.value, opened.length, refetches]).toEqual(["polling", 1, 12]);
  });

  it("is opened again after Retry-After when there were too many", async () => {
    error = new Response(null, { status: 429, headers: { "retry-after": "7" } });
    await begin();
    await advance(6900);
    expect([streamState.value, opened.length]).toEqual(["polling", 1]);
    error = null;
    await advance(200);
    expect([streamState.value, opened.length]).toEqual(["live", 2]);
  });

  it("is opened again at the date of Retry-After, at most a minute later", async () => {
    error = new Response(null, { status: 503, headers: { "retry-after": new Date(Date.now() + 20_000).toUTCString() } });
    await begin();
    await advance(18_000);
    expect(opened).toHaveLength(1);
    error = new Response(null, { status: 429, headers: { "retry-after": "86400" } });
    await advance(3000);
    expect(opened).toHaveLength(2);
    await advance(60_001);
    expect(opened).toHaveLength(3);
  });
});
