// A table that becomes cards on a phone, where each cell shows its column's name.
import type { ComponentChildren } from "preact";
import { navigate, openInNewTab } from "../route/router";

export interface Column<T> {
  name: string;
  cell: (row: T) => ComponentChildren;
  /** Headline of the card on a phone. */
  isMain?: boolean;
  isNumber?: boolean;
}

interface Props<T> {
  caption: string;
  columns: Column<T>[];
  rows: T[];
  idOf: (row: T) => string;
  hrefOf?: (row: T) => string;
  /** Narrow enough to stay a table on a phone. */
  isTight?: boolean;
}

export function Table<T>({ caption, columns, rows, idOf, hrefOf, isTight = false }: Props<T>) {
  const shown = columns.filter((column) => column.name !== "");
  // Keyboards use the first link of a row; for pointers the whole row is a link.
  const open = (event: MouseEvent, row: T) => {
    const target = event.target as Element;
    if (!hrefOf || target.closest("a, button, input, select, summary, code") || String(window.getSelection()) !== "") return;
    if (event.metaKey || event.ctrlKey) openInNewTab(hrefOf(row));
    else navigate(hrefOf(row));
  };
  return (
    <table class={["rows", hrefOf && "linked", isTight && "tight"].filter(Boolean).join(" ")}>
      <caption class="visually-hidden">{caption}</caption>
      <thead>
        <tr>
          {columns.map((column) => (
            <th key={column.name} scope="col" class={column.isNumber ? "number" : undefined}>
              {shown.includes(column) ? column.name : <span class="visually-hidden">Actions</span>}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={idOf(row)} onClick={(event) => open(event, row)}>
            {columns.map((column) => (
              <td key={column.name} data-name={column.name} class={cellClass(column)}>
                {column.cell(row)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function cellClass<T>(column: Column<T>): string | undefined {
  const classes = [column.isMain && "main", column.isNumber && "number"].filter(Boolean);
  return classes.length > 0 ? classes.join(" ") : undefined;
}
