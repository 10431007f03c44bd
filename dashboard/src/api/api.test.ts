import { describe, expect, it } from "vitest";
import { ApiError, nullIfNotFound, errorOfResponse, adviceFor } from "./error";
import { SseParser } from "./sse-parser";

describe("server-sent events", () => {
  const TEXT =
    ': hello\n\nevent: delivery\ndata: {"id":"dlv_1"}\n\nevent: notice\r\ndata: a\r\ndata: b\r\n\r\ndata\n\nevent: empty\n\n';

  it("do not depend on where chunks end", () => {
    const whole = new SseParser().push(TEXT);
    expect(whole).toEqual([
      { name: "delivery", data: '{"id":"dlv_1"}' },
      { name: "notice", data: "a\nb" },
      { name: "message", data: "" },
    ]);
    for (let size = 1; size < 8; size += 1) {
      const reader = new SseParser();
      const found = [];
      for (let at = 0; at < TEXT.length; at += size) found.push(...reader.push(TEXT.slice(at, at + size)));
      expect(found).toEqual(whole);
    }
  });
});

describe("an API error", () => {
  it("has the API's detail and field", () => {
    const error = errorOfResponse(422, { code: "invalid", detail: "url: must be https", field: "url", status: 422, title: "" });
    expect([error.text, error.field, adviceFor(error)]).toEqual(["must be https", "url", null]);
  });

  it("is made from a response that is not the API's", () => {
    expect(errorOfResponse(502, "<html>").message).toContain("502");
  });

  it("becomes null only after 404", async () => {
    const failed = (status: number) => nullIfNotFound(Promise.reject(new ApiError(status, "some", "why")));
    expect(await failed(404)).toBeNull();
    for (const status of [0, 403, 429, 500]) await expect(failed(status)).rejects.toThrow("why");
    expect(await nullIfNotFound(Promise.resolve("thing"))).toBe("thing");
  });

  it("is transient after no response, 429 and 5xx", () => {
    const passing = [0, 401, 403, 404, 409, 410, 422, 429, 500, 503, 507].filter(
      (status) => errorOfResponse(status, null).isTransient,
    );
    expect(passing).toEqual([0, 429, 500, 503, 507]);
  });
});
