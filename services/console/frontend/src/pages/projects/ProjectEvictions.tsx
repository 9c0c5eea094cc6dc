import { useSignal } from "@preact/signals";

import { archivePath, useFetch, type Eviction, type Page } from "../../api";
import { duration, EVICTION_CAUSES, evictionCauseText, gpuTime } from "../../lib";
import { Card, DataTable, DecisionLink, JobLink, Loaded, RelativeTime } from "../../ui";

const SHOWN = 50;

/** The newest evictions of jobs of a project and its descendants, from the archive. newest: refresh key. */
export function ProjectEvictions({ pool, projects, newest }: { pool: string; projects: readonly string[]; newest: number }) {
  const retryCount = useSignal(0);
  const names = [...projects.map((name) => `project=${encodeURIComponent(name)}`), ...EVICTION_CAUSES.map((cause) => `reason=${cause}`)].join("&");
  const loaded = useFetch<Page<Eviction>>(archivePath(pool, `evictions?${names}&limit=${SHOWN}`), `${retryCount.value} ${newest}`).value;
  return (
    <Card title="Evicted jobs" aside={loaded.value?.next ? <span class="soft">the newest {SHOWN}</span> : undefined}>
      <Loaded of={loaded} what="evictions" retry={() => (retryCount.value += 1)}>
        {({ items }) => (
          <DataTable
            caption="Evictions, newest first"
            empty="No evictions."
            rows={items}
            rowKey={(row) => `${row.decided_seq} ${row.job}`}
            columns={[
              { head: "When", cell: (row) => <span class="nowrap"><RelativeTime at={row.decided_at} /></span> },
              { head: "Job", cell: (row) => <span class="table-job"><JobLink pool={pool} job={row.job} /></span> },
              { head: "Preempted by", cell: (row) => (row.for_job ? <JobLink pool={pool} job={row.for_job} /> : <span class="soft">{evictionCauseText(row.cause ?? "")}</span>) },
              { head: "GPUs", right: true, cell: (row) => row.gpus ?? "–" },
              { head: "Work lost", right: true, cell: (row) => (row.work_lost_gpu_ms === null ? "–" : <span class="nowrap">{row.work_lost_gpu_ms ? gpuTime(row.work_lost_gpu_ms) : "none"}</span>) },
              { head: "Resumed after", right: true, cell: (row) => (row.until_resumed_s === null ? "not yet" : duration(row.until_resumed_s)) },
              { head: "Decision", right: true, cell: (row) => <DecisionLink pool={pool} seq={row.decided_seq} /> },
            ]}
          />
        )}
      </Loaded>
    </Card>
  );
}
