import { expect, it } from "vitest";
import { textOf } from "../components/text-of.fixture";
import { type Permissions, noDeliveriesText, noEndpointsText, noEventsText, nothingSentText } from "../text/empty-lists";
import { FirstSteps } from "./first-steps";

const texts = (permissions: Permissions) =>
  [
    textOf(FirstSteps({ app: "shop", permissions })),
    noEndpointsText(permissions),
    noEventsText(permissions),
    noDeliveriesText(permissions),
    nothingSentText(permissions),
  ].join("\n");

it("empty pages suggest only steps that the permissions allow", () => {
  const [reader, customer, product] = [
    texts({ change: false, publish: false }),
    texts({ change: true, publish: false }),
    texts({ change: true, publish: true }),
  ];
  expect(reader).not.toMatch(/\b(add one|add an|publish an?|publish one|send|button|posthaste listen)\b/i);
  expect(customer).not.toMatch(/\b(publish an?|publish one|button|posthaste listen)\b/i);
  expect(customer).toMatch(/add an endpoint.*send it a test/is);
  expect(product).toMatch(/add an endpoint.*button above.*posthaste listen --app shop/is);
});
