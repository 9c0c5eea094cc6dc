import { useSignal } from "@preact/signals";

import { archivePath, type Page } from "../../lib/api";
import { useLoad } from "../../lib/load";
import { duration } from "../../lib/words";
import { Ago } from "../../ui/Ago";
import { Card } from "../../ui/Card";
import { DataTable } from "../../ui/DataTable";
import { Failure } from "../../ui/Failure";
import { DecisionLink, JobLink } from "../../ui/Links";
import { Loading } from "../../ui/Loading";
import type { Eviction } from "../job/shapes";
import { causeText } from "../queue/making";
import { lost } from "./shares";

const SHOWN = 50;

/** The newest evictions of a project's own jobs and of those below it, from the archive. newest: asked again when it changes. */
export function Losses({ pool, projects, newest }: { pool: string; projects: readonly string[]; newest: number }) {
  const again = useSignal(0);
  const names = projects.map((name) => `project=${encodeURIComponent(name)}`).join("&");
  const loaded = useLoad<Page<Eviction>>(archivePath(pool, `evictions?${names}&limit=${SHOWN}`), `${again.value} ${newest}`);
  const { value, failure } = loaded.value;
  return (
    <Card title="Its jobs that had to leave" aside={value?.next ? <span class="soft">the newest {SHOWN}</span> : undefined}>
      {!value ? (
        failure ? (
          <Failure refusal={failure} again={() => (again.value += 1)} />
        ) : (
          <Loading what="evictions" />
        )
      ) : value.items.length === 0 ? (
        <p class="soft">No job of it had to leave so far.</p>
      ) : (
        <DataTable
          caption="Evictions of its jobs, the newest first"
          rows={value.items}
          rowKey={(row) => `${row.decided_seq} ${row.job}`}
          columns={[
            { head: "When", cell: (row) => <span class="nowrap"><Ago at={row.decided_at} /></span> },
            { head: "Job", cell: (row) => <span class="table-job"><JobLink pool={pool} job={row.job} /></span> },
            { head: "For", cell: (row) => (row.for_job ? <JobLink pool={pool} job={row.for_job} /> : <span class="soft">{causeText(row.cause ?? "")}</span>) },
            { head: "GPUs", right: true, cell: (row) => row.gpus ?? "–" },
            { head: "Lost", right: true, cell: (row) => (row.lost_gpu_hours === null ? "–" : <span class="nowrap">{lost(row.lost_gpu_hours)}</span>) },
            { head: "Back after", right: true, cell: (row) => (row.until_resumed_s === null ? "not yet" : duration(row.until_resumed_s)) },
            { head: "Decision", right: true, cell: (row) => <DecisionLink pool={pool} seq={row.decided_seq} /> },
          ]}
        />
      )}
    </Card>
  );
}
