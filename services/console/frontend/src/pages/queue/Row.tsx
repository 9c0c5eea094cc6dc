import { useSignal } from "@preact/signals";

import { plainLine } from "../../lib/plain";
import { gpusText, ruleTitle } from "../../lib/terms";
import { times } from "../../lib/words";
import type { LiveJob } from "../../live/shapes";
import { Since } from "../../ui/Ago";
import { Badge } from "../../ui/Badge";
import { JobLink, SeqLink } from "../../ui/Links";
import { whyText } from "./waiting";
import { WhatFrees } from "./WhatFrees";

/** One job that waits. position null: it does not stand in line. */
export function Row({ pool, job, position }: { pool: string; job: LiveJob; position: number | null }) {
  const open = useSignal(false);
  const id = `frees-${job.job}`;
  return (
    <li class="waiting" data-open={open.value ? "" : undefined}>
      <span class="position number">{position ?? "·"}</span>
      <div class="waiting-main">
        <div class="waiting-head">
          <strong class="job-name">
            <JobLink pool={pool} job={job.job} />
          </strong>
          <span class="soft">
            {job.project || "no project"}, {job.class} <span class="number">{job.priority}</span>
          </span>
          {job.evictions > 0 && <Badge title="How often it had to leave">had to leave {times(job.evictions)}</Badge>}
        </div>
        <p class="why" title={plainLine(job.why || job.note) || undefined}>
          {whyText(job, position === null ? 1 : position - 1)}{" "}
          {job.why_rule && <Badge title={ruleTitle(job.why_rule)}>{job.why_rule}</Badge>} {job.why_seq !== null && <SeqLink pool={pool} seq={job.why_seq} />}
        </p>
        {job.back && <p class="soft">{job.back}</p>}
      </div>
      <dl class="waiting-facts">
        <div>
          <dt class="visually-hidden">Asks for</dt>
          <dd class="number">{gpusText(job)}</dd>
        </div>
        <div>
          <dt class="soft">waits</dt>
          <dd>{job.waiting_since ? <Since at={job.waiting_since} /> : "–"}</dd>
        </div>
      </dl>
      <button type="button" class="frees" aria-expanded={open.value} aria-controls={id} onClick={() => (open.value = !open.value)}>
        What would free it?<span class="visually-hidden"> {job.job}</span>
        <span class="chevron" aria-hidden="true" />
      </button>
      {open.value && (
        <div class="waiting-more" id={id}>
          <WhatFrees pool={pool} job={job.job} />
        </div>
      )}
    </li>
  );
}
