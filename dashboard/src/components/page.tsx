// The building blocks of a page: head, cards, properties, tabs and figures.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { currentPath } from "../route/router";
import { session } from "../session/session";

interface PageHeadProps {
  title: string;
  /** Links to the pages above this one. */
  breadcrumbs?: { label: string; href: string }[];
  aside?: ComponentChildren;
  children?: ComponentChildren;
}

export function PageHead({ title, breadcrumbs = [], aside, children }: PageHeadProps) {
  useEffect(() => {
    document.title = `${title} · ${session.value?.theme?.name ?? "Posthaste"}`;
  }, [title]);
  return (
    <header class="head">
      {breadcrumbs.length > 0 && (
        <nav class="breadcrumbs" aria-label="Where this is">
          {breadcrumbs.map((each) => (
            <a key={each.href} href={each.href}>
              {each.label}
            </a>
          ))}
        </nav>
      )}
      <div class="headline">
        <h1>{title}</h1>
        {aside}
        {children && <div class="buttons">{children}</div>}
      </div>
    </header>
  );
}

export function Card({ title, aside, children }: { title?: string; aside?: ComponentChildren; children: ComponentChildren }) {
  return (
    <section class="card">
      {(title || aside) && (
        <div class="card-head">
          {title && <h2>{title}</h2>}
          {aside && <div class="buttons">{aside}</div>}
        </div>
      )}
      {children}
    </section>
  );
}

/** A list of names and values. Empty values are left out. */
export function PropertyList({ properties }: { properties: [string, ComponentChildren][] }) {
  return (
    <dl class="properties">
      {properties
        .filter(([, value]) => value !== null && value !== undefined && value !== false && value !== "" && !isEmptyList(value))
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

function isEmptyList(value: ComponentChildren): boolean {
  return Array.isArray(value) && value.length === 0;
}

export function Tabs({ label, tabs }: { label: string; tabs: { label: string; href: string }[] }) {
  const nav = useRef<HTMLElement>(null);
  const path = currentPath.value;
  useEffect(() => nav.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" }), [path]);
  return (
    <nav ref={nav} class="tabs" aria-label={label}>
      {tabs.map((tab) => (
        <a key={tab.href} href={tab.href} aria-current={path === tab.href ? "page" : undefined}>
          {tab.label}
        </a>
      ))}
    </nav>
  );
}

export function Figure({
  name,
  value,
  note,
  tone,
}: {
  name: string;
  value: ComponentChildren;
  note?: ComponentChildren;
  tone?: string;
}) {
  return (
    <div class={tone ? `figure ${tone}` : "figure"}>
      <div class="figure-name">{name}</div>
      <div class="figure-value">{value}</div>
      {note && <div class="figure-note">{note}</div>}
    </div>
  );
}
