import { duration, gpuTime } from "../lib/format";
import { DataTable } from "../ui/DataTable";
import { JobLink } from "../ui/Links";
import type { Affected } from "./requests";
import { effectText } from "./effectText";

/** The jobs that a request affects, with the effect and the cost of each. */
export function AffectedJobsTable({ pool, rows }: { pool: string; rows: Affected[] }) {
  return (
    <DataTable
      caption="Affected jobs"
      rows={rows}
      rowKey={(row) => `${row.job} ${row.effect} ${row.tasks}`}
      columns={[
        { head: "Job", cell: (row) => <JobLink pool={pool} job={row.job} /> },
        { head: "Class", cell: (row) => row.priority_class },
        { head: "Effect", cell: effectText },
        { head: "GPUs", right: true, cell: (row) => row.gpus },
        { head: "Grace period", right: true, cell: (row) => (row.effect === "starts" ? "" : duration(row.grace_s)) },
        { head: "Work lost (max)", right: true, cell: (row) => (row.effect === "starts" ? "" : row.lost_gpu_ms ? gpuTime(row.lost_gpu_ms) : "none") },
      ]}
    />
  );
}
