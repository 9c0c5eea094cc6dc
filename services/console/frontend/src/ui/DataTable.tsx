import type { ComponentChildren } from "preact";

import { useShowMore } from "./useShowMore";

const INITIAL_ROWS = 200;
const STEP = 1_000;
const FITS = 3; // columns, on a phone

export interface Column<T> {
  head: string;
  right?: boolean;
  /** As wide as its cells, such as a check box; its head is for screen readers only. */
  narrow?: boolean;
  cell: (row: T) => ComponentChildren;
}

/** A table; long ones show their first rows and a button for more. caption: for screen readers. */
export function DataTable<T>({ caption, columns, rows, rowKey }: { caption: string; columns: Column<T>[]; rows: T[]; rowKey: (row: T) => string | number }) {
  const [shown, more] = useShowMore(rows, INITIAL_ROWS, STEP);
  return (
    <>
      <div class="table-scroll" tabIndex={0} role="region" aria-label={caption}>
        <table class={columns.length > FITS ? "table stacking" : "table"}>
          <caption class="visually-hidden">{caption}</caption>
          <thead>
            <tr>
              {columns.map((column) => (
                <th key={column.head} scope="col" class={column.right ? "right" : column.narrow ? "narrow" : undefined}>
                  {column.narrow ? <span class="visually-hidden">{column.head}</span> : column.head}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((row) => (
              <tr key={rowKey(row)}>
                {columns.map((column) => (
                  <td key={column.head} data-head={column.narrow ? "" : column.head} class={column.right ? "right" : column.narrow ? "narrow" : undefined}>
                    {column.cell(row)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {more}
    </>
  );
}
