import type { AffectedView } from "../api";
import { duration, gpuTime } from "../lib";
import { effectText, gains } from "../shared/effectText";
import { DataTable, JobLink } from "../ui";

/** The jobs that a request affects, with the effect and the cost of each. */
export function AffectedJobsTable({ pool, rows }: { pool: string; rows: AffectedView[] }) {
  return (
    <DataTable
      caption="Affected jobs"
      rows={rows}
      rowKey={(row) => `${row.job} ${row.effect} ${row.tasks}`}
      columns={[
        { head: "Job", cell: (row) => <JobLink pool={pool} job={row.job} /> },
        { head: "Class", cell: (row) => row.priority_class },
        { head: "Effect", cell: effectText },
        { head: "GPUs", right: true, cell: (row) => row.gpus_text },
        { head: "Grace period", right: true, cell: (row) => (gains(row.effect) ? "" : duration(row.grace_s)) },
        { head: "Work lost (max)", right: true, cell: (row) => (gains(row.effect) ? "" : row.work_lost_gpu_ms ? gpuTime(row.work_lost_gpu_ms) : "none") },
        { head: "Restart (assumed or measured)", right: true, cell: (row) => (row.restart_gpu_ms ? gpuTime(row.restart_gpu_ms) : "") },
      ]}
    />
  );
}
