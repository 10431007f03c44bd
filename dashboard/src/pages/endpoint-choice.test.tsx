import { expect, it } from "vitest";
import type { Endpoint } from "../api/schema";
import { endpointOptions } from "./endpoint-choice";

it("a filter for an endpoint that is not listed shows its id", () => {
  const endpoints = [{ id: "ep_1", url: "https://a.example/" }] as Endpoint[];
  const labels = (value: string) => endpointOptions(endpoints, value).map((each) => each.label);
  expect(labels("ep_gone")).toEqual(["Every endpoint", "https://a.example/", "ep_gone"]);
  expect([labels(""), labels("ep_1")]).toEqual(Array(2).fill(["Every endpoint", "https://a.example/"]));
});
