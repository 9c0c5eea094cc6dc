import { useSignal } from "@preact/signals";

import { archivePath, type Page } from "../../lib/api";
import { useFetch } from "../../lib/useFetch";
import { duration } from "../../lib/format";
import { RelativeTime } from "../../ui/RelativeTime";
import { Card } from "../../ui/Card";
import { DataTable } from "../../ui/DataTable";
import { ErrorMessage } from "../../ui/ErrorMessage";
import { DecisionLink, JobLink } from "../../ui/Links";
import { Loading } from "../../ui/Loading";
import type { Eviction } from "../job/types";
import { causeText } from "../queue/preemptionGroups";
import { lost } from "./shareText";

const SHOWN = 50;

/** The newest evictions of jobs of a project and its descendants, from the archive. newest: refresh key. */
export function ProjectEvictions({ pool, projects, newest }: { pool: string; projects: readonly string[]; newest: number }) {
  const retryCount = useSignal(0);
  const names = projects.map((name) => `project=${encodeURIComponent(name)}`).join("&");
  const loaded = useFetch<Page<Eviction>>(archivePath(pool, `evictions?${names}&limit=${SHOWN}`), `${retryCount.value} ${newest}`);
  const { value, failure } = loaded.value;
  return (
    <Card title="Evicted jobs" aside={value?.next ? <span class="soft">the newest {SHOWN}</span> : undefined}>
      {!value ? (
        failure ? (
          <ErrorMessage error={failure} retry={() => (retryCount.value += 1)} />
        ) : (
          <Loading what="evictions" />
        )
      ) : value.items.length === 0 ? (
        <p class="soft">No evictions.</p>
      ) : (
        <DataTable
          caption="Evictions, newest first"
          rows={value.items}
          rowKey={(row) => `${row.decided_seq} ${row.job}`}
          columns={[
            { head: "When", cell: (row) => <span class="nowrap"><RelativeTime at={row.decided_at} /></span> },
            { head: "Job", cell: (row) => <span class="table-job"><JobLink pool={pool} job={row.job} /></span> },
            { head: "Preempted by", cell: (row) => (row.for_job ? <JobLink pool={pool} job={row.for_job} /> : <span class="soft">{causeText(row.cause ?? "")}</span>) },
            { head: "GPUs", right: true, cell: (row) => row.gpus ?? "–" },
            { head: "Work lost", right: true, cell: (row) => (row.lost_gpu_hours === null ? "–" : <span class="nowrap">{lost(row.lost_gpu_hours)}</span>) },
            { head: "Resumed after", right: true, cell: (row) => (row.until_resumed_s === null ? "not yet" : duration(row.until_resumed_s)) },
            { head: "Decision", right: true, cell: (row) => <DecisionLink pool={pool} seq={row.decided_seq} /> },
          ]}
        />
      )}
    </Card>
  );
}
