// Renders a component to text without a browser. Works for components without hooks, which are plain functions.
import type { ComponentChild, VNode } from "preact";

export function textOf(given: unknown): string {
  const node = given as ComponentChild | ComponentChild[];
  if (Array.isArray(node)) return node.map(textOf).join("");
  if (typeof node === "string" || typeof node === "number") return String(node);
  if (node === null || typeof node !== "object" || !("type" in node)) return "";
  const { type, props } = node as VNode;
  if (typeof type === "function") return textOf((type as (given: unknown) => unknown)(props));
  return textOf(props.children);
}
