import { describe, expect, it } from "vitest";
import { layOver } from "./pages";
import { refusalOf, whatToDo } from "./problem";
import { EventReader } from "./sse";

describe("server-sent events", () => {
  const TEXT =
    ': hello\n\nevent: delivery\ndata: {"id":"dlv_1"}\n\nevent: notice\r\ndata: a\r\ndata: b\r\n\r\ndata\n\nevent: empty\n\n';

  it("are the same wherever the chunks end", () => {
    const whole = new EventReader().push(TEXT);
    expect(whole).toEqual([
      { name: "delivery", data: '{"id":"dlv_1"}' },
      { name: "notice", data: "a\nb" },
      { name: "message", data: "" },
    ]);
    for (let size = 1; size < 8; size += 1) {
      const reader = new EventReader();
      const found = [];
      for (let at = 0; at < TEXT.length; at += size) found.push(...reader.push(TEXT.slice(at, at + size)));
      expect(found).toEqual(whole);
    }
  });
});

describe("a fresh first page", () => {
  const rows = (...ids: string[]) => ids.map((id) => ({ id }));
  const over = (fresh: string[], before: string[]) =>
    layOver(rows(...fresh), rows(...before), (row) => row.id).map((row) => row.id);

  it("goes before what was read further back", () => {
    expect(over(["5", "4", "3"], ["4", "3", "2", "1"])).toEqual(["5", "4", "3", "2", "1"]);
  });

  it("takes away what was deleted within its reach", () => {
    expect(over(["5", "3", "2"], ["5", "4", "3", "2", "1"])).toEqual(["5", "3", "2", "1"]);
  });

  it("keeps everything when so much is new that they do not meet", () => {
    expect(over(["9", "8"], ["3", "2"])).toEqual(["9", "8", "3", "2"]);
  });
});

describe("a refusal", () => {
  it("says what the API says, by field", () => {
    const refusal = refusalOf(422, { code: "invalid", detail: "url: must be https", field: "url", status: 422, title: "" });
    expect([refusal.text, refusal.field, whatToDo(refusal)]).toEqual(["must be https", "url", null]);
  });

  it("makes do with an answer that is none of the API's", () => {
    expect(refusalOf(502, "<html>").message).toContain("502");
  });
});
