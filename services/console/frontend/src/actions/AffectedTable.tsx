import { gpuTime } from "../lib/terms";
import { duration } from "../lib/words";
import { DataTable } from "../ui/DataTable";
import { JobLink } from "../ui/Links";
import type { Affected } from "./requests";
import { does } from "./words";

/** Whom it concerns, what each of them does, and what that costs it. */
export function AffectedTable({ pool, rows }: { pool: string; rows: Affected[] }) {
  return (
    <DataTable
      caption="Jobs that it concerns"
      rows={rows}
      rowKey={(row) => `${row.job} ${row.what} ${row.tasks}`}
      columns={[
        { head: "Job", cell: (row) => <JobLink pool={pool} job={row.job} /> },
        { head: "Class", cell: (row) => row.priority_class },
        { head: "What it does", cell: does },
        { head: "GPUs", right: true, cell: (row) => row.gpus },
        { head: "Notice", right: true, cell: (row) => (row.what === "starts" ? "" : duration(row.grace_s)) },
        { head: "Loses at most", right: true, cell: (row) => (row.what === "starts" ? "" : row.lost_gpu_ms ? gpuTime(row.lost_gpu_ms) : "none") },
      ]}
    />
  );
}
