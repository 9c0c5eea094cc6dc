import type { ComponentChildren } from "preact";

import type { AccountingRow, Figures } from "../../api";
import { DataTable, type Column } from "../../ui";
import { hours, percent } from "../../shared/gpuHours";
import { nameOf, type Key } from "./accountingData";

type Row = AccountingRow | (Figures & { total: true });

/** GPU-hours by `by`, with the total as the last row. name: how a value is shown. */
export function AccountingTable({ caption, by, head, rows, totals, name }: { caption: string; by: Key; head: string; rows: AccountingRow[]; totals: Figures; name?: ((row: AccountingRow) => ComponentChildren) | undefined }) {
  const label = (row: Row): ComponentChildren => ("total" in row ? <strong>Total</strong> : name ? name(row) : <bdi>{nameOf(row, by)}</bdi>);
  const columns: (Column<Row> & { caused?: boolean })[] = [
    { head, caused: true, cell: label },
    { head: "Used", right: true, cell: (row) => hours(row.used) },
    { head: "Part", right: true, cell: (row) => percent(row.used, totals.used) },
    { head: "Borrowed", right: true, cell: (row) => hours(row.borrowed) },
    { head: "Lost", caused: true, right: true, cell: (row) => hours(row.lost) },
    { head: "Lost, other", right: true, cell: (row) => hours(row.lost_other) },
    { head: "Restarts (assumed or measured)", caused: true, right: true, cell: (row) => hours(row.restart) },
    { head: "Waiting", right: true, cell: (row) => hours(row.waiting) },
    { head: "Preempted", caused: true, right: true, cell: (row) => row.preemptions.toLocaleString("en") },
    { head: "Jobs", caused: true, right: true, cell: (row) => row.jobs.toLocaleString("en") },
  ];
  const ofPreemptors = by === "preemptor"; // who used and waited is none of theirs
  const sorted = ofPreemptors ? [...rows.filter((row) => row.preemptor), ...rows.filter((row) => !row.preemptor)] : rows;
  return <DataTable caption={caption} columns={ofPreemptors ? columns.filter((each) => each.caused) : columns} rows={[...sorted, { ...totals, total: true }]} rowKey={(row) => ("total" in row ? "\0total" : `${row[by] ?? ""}/${row.submitted_seq ?? ""}`)} />;
}
