import type { VictimView } from "../api";
import { gpuCount, gpuTime } from "../lib";
import { DataTable, JobLink } from "../ui";
import { victimOutcome } from "./effectText";

/** The victims of a preemption, decided or planned, and the work that each loses. */
export function VictimTable({ pool, victims, caption }: { pool: string; victims: VictimView[]; caption: string }) {
  return (
    <DataTable
      caption={caption}
      rows={victims}
      rowKey={(row) => `${row.job}/${row.tasks}`}
      columns={[
        { head: "Victim", cell: (row) => <><JobLink pool={pool} job={row.job} />{row.tasks && <span class="soft"> only tasks {row.tasks}</span>}</> },
        { head: "Class", cell: (row) => `${row.priority_class} ${row.priority}` },
        { head: "Project", cell: (row) => row.project },
        { head: "GPUs", right: true, cell: (row) => gpuCount(row.gpus * 1000) },
        { head: "Work lost", right: true, cell: (row) => (row.effect === "loses its reservation" ? "none: not started" : gpuTime(row.work_lost_gpu_ms)) },
        { head: "Restart (assumed or measured)", right: true, cell: (row) => gpuTime(row.restart_gpu_ms) },
        { head: "Afterwards", line: true, cell: victimOutcome },
      ]}
    />
  );
}
