import { expect, it } from "vitest";
import { textOf } from "../components/text-of.fixture";
import { type May, noDeliveriesText, noEndpointsText, noEventsText, nothingSentText } from "../text/empty-lists";
import { FirstSteps } from "./first-steps";

const said = (may: May) =>
  [
    textOf(FirstSteps({ app: "shop", may })),
    noEndpointsText(may),
    noEventsText(may),
    noDeliveriesText(may),
    nothingSentText(may),
  ].join("\n");

it("nobody is told to do what they may not", () => {
  const [reader, customer, product] = [
    said({ change: false, publish: false }),
    said({ change: true, publish: false }),
    said({ change: true, publish: true }),
  ];
  expect(reader).not.toMatch(/\b(add one|add an|publish an?|publish one|send|button|posthaste listen)\b/i);
  expect(customer).not.toMatch(/\b(publish an?|publish one|button|posthaste listen)\b/i);
  expect(customer).toMatch(/add an endpoint.*send it a test/is);
  expect(product).toMatch(/add an endpoint.*button above.*posthaste listen --app shop/is);
});
