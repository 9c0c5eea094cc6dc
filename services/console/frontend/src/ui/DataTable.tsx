import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

import { useElementWidth } from "../lib";
import { useShowMore } from "./useShowMore";

const INITIAL_ROWS = 200;
const STEP = 1_000;
const FITS = 3; // columns, on a phone
const NARROW_PX = 600;

export interface Column<T> {
  head: string;
  title?: string;
  right?: boolean;
  /** As wide as its cells, such as a check box; its head is for screen readers only. */
  narrow?: boolean;
  /** Where rows are blocks: on a line of its own, without its head. */
  line?: boolean;
  cell: (row: T) => ComponentChildren;
}

const kindOf = ({ right, narrow, line }: Column<never>): string | undefined => [right && "right", narrow && "narrow", line && "line"].filter(Boolean).join(" ") || undefined;

interface Props<T> {
  /** For screen readers. */
  caption: string;
  columns: Column<T>[];
  rows: T[];
  rowKey: (row: T) => string | number;
  /** Said instead of a table without rows. */
  empty?: string;
}

/** A table; long ones show their first rows and a button for more. Where it does not fit, each row is a block of labelled values. */
export function DataTable<T>({ empty, ...table }: Props<T>) {
  return empty && !table.rows.length ? <p class="soft">{empty}</p> : <Rows {...table} />;
}

function Rows<T>({ caption, columns, rows, rowKey }: Props<T>) {
  const [shown, more] = useShowMore(rows, INITIAL_ROWS, STEP);
  const box = useRef<HTMLDivElement>(null);
  const width = useElementWidth(box).value;
  const needed = useSignal(NARROW_PX + 1);
  const stacked = columns.length > FITS && width > 0 && width < needed.value;
  useLayoutEffect(() => {
    const { scrollWidth, clientWidth } = box.current!;
    if (!stacked && scrollWidth > clientWidth) needed.value = scrollWidth;
  });
  return (
    <>
      <div ref={box} class="table-scroll" tabIndex={0} role="region" aria-label={caption}>
        <table class={`table ${columns.length > FITS ? "wide" : ""} ${stacked ? "stacked" : ""}`}>
          <caption class="visually-hidden">{caption}</caption>
          <thead>
            <tr>
              {columns.map((column) => (
                <th key={column.head} scope="col" class={kindOf(column)} title={column.title}>
                  {column.narrow ? <span class="visually-hidden">{column.head}</span> : column.head}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((row) => (
              <tr key={rowKey(row)}>
                {columns.map((column) => (
                  <td key={column.head} data-head={column.narrow || column.line ? "" : column.head} class={kindOf(column)}>
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
