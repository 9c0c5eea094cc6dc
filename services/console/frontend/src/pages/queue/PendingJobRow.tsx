import { useSignal } from "@preact/signals";

import type { LiveJob } from "../../api";
import { gpusText, ruleTitle, sanitizeLine, times } from "../../lib";
import { Badge, Elapsed, JobLink, RelativeTime, SeqLink } from "../../ui";
import { JobExplanation } from "./JobExplanation";
import { pendingText } from "./pendingJobs";

/** A pending job. position null: not in the queue. */
export function PendingJobRow({ pool, job, position }: { pool: string; job: LiveJob; position: number | null }) {
  const open = useSignal(false);
  const id = `explanation-${job.job}`;
  return (
    <li class="pending-job" data-open={open.value ? "" : undefined}>
      <span class="position number">{position ?? "·"}</span>
      <div class="pending-main">
        <div class="row pending-head">
          <strong class="cut">
            <JobLink pool={pool} job={job.job} />
          </strong>
          <span class="soft">
            {job.project || "no project"}, {job.priority_class} <span class="number">{job.priority}</span>
          </span>
          {job.evictions > 0 && <Badge title="Number of evictions">evicted {times(job.evictions)}</Badge>}
        </div>
        <p class="pending-reason" title={sanitizeLine(job.pending_reason || job.note) || undefined}>
          {pendingText(job, position === null ? 1 : position - 1)}{" "}
          {job.pending_rule && <Badge title={ruleTitle(job.pending_rule)}>{job.pending_rule}</Badge>} {job.pending_reason_seq !== null && <SeqLink pool={pool} seq={job.pending_reason_seq} />}
          {job.pending_reason_at && <span class="soft"> <RelativeTime at={job.pending_reason_at} /></span>}
        </p>
        {job.restart_estimate && <p class="soft">{job.restart_estimate}</p>}
      </div>
      <dl class="pending-facts">
        <div>
          <dt class="visually-hidden">Requests</dt>
          <dd class="number">{gpusText(job)}</dd>
        </div>
        <div>
          <dt class="soft">pending</dt>
          <dd>{job.pending_since ? <Elapsed at={job.pending_since} /> : "–"}</dd>
        </div>
      </dl>
      <button type="button" class="button explain-toggle" aria-expanded={open.value} aria-controls={id} onClick={() => (open.value = !open.value)}>
        What would unblock it?<span class="visually-hidden"> {job.job}</span>
        <span class="chevron" aria-hidden="true" />
      </button>
      {open.value && (
        <div class="pending-more" id={id}>
          <JobExplanation pool={pool} job={job.job} />
        </div>
      )}
    </li>
  );
}
